"""What the routes check alike."""

import secrets
from collections.abc import Awaitable, Callable

from fastapi import Request

from serving.errors import ApiError, invalid
from serving.served_model import ServedModel


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


def require_priority_policy(priority: int | None, served: ServedModel) -> None:
    """Raise `ApiError` for a priority that this engine's queue does not look at."""
    if priority and served.llm.config.policy != "priority":
        raise invalid(f"priority {priority} needs a server with --scheduling-policy priority", "priority")
