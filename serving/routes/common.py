"""What the routes check alike."""

import re
import secrets
from collections.abc import Awaitable, Callable
from uuid import uuid4

from fastapi import Request

from serving.errors import ApiError, invalid
from serving.served_model import ServedModel

MAX_ID_CHARACTERS = 128
REQUEST_ID = re.compile(rf"[A-Za-z0-9._:-]{{1,{MAX_ID_CHARACTERS}}}")


def require_api_key(api_key: str | None) -> Callable[[Request], Awaitable[None]]:
    """Return a dependency that raises `ApiError` (401) for a request without the key; None lets all pass."""

    async def require(request: Request) -> None:
        if api_key is None:
            return
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not secrets.compare_digest(given.strip().encode(), api_key.encode()):
            message = "the API key is wrong" if given else "no API key: send it as Authorization: Bearer KEY"
            headers = {"WWW-Authenticate": "Bearer"}
            raise ApiError(401, message, type="authentication_error", code="invalid_api_key", headers=headers)

    return require


def request_id_of(request: Request) -> str:
    """Return the client's own id for its request, `X-Request-Id`, or a new one. Its answer's id ends with it.

    vLLM: `_base_request_id`. Raises `ApiError` (400) for an id that could not stand in a URL.
    """
    request_id = request.headers.get("x-request-id")
    if request_id is None:
        return uuid4().hex
    if not REQUEST_ID.fullmatch(request_id):
        allowed = f"1 to {MAX_ID_CHARACTERS} letters, digits, '.', '_', '-' or ':'"
        raise invalid(f"X-Request-Id must be {allowed}, got {request_id[:MAX_ID_CHARACTERS]!r}", "X-Request-Id")
    return request_id


def require_priority_policy(priority: int | None, served: ServedModel) -> None:
    """Raise `ApiError` for a priority that this engine's queue ignores."""
    if priority and served.llm.config.policy != "priority":
        raise invalid(f"priority {priority} needs a server with --scheduling-policy priority", "priority")
