"""The body of a request, read within a limit of size and of time."""

import asyncio

from fastapi import Request
from starlette.requests import ClientDisconnect

from serving.errors import ApiError
from serving.settings import ServerSettings


async def read_body(request: Request, settings: ServerSettings) -> bytes:
    """Return the body, of which never more than the limit is in memory.

    Raises `ApiError`: 413 if it is too large, as soon as that is known; 408 if the client takes too long to send it;
    415 if it is declared as something other than JSON.
    """
    require_json(request)
    if int(request.headers.get("content-length", 0)) > settings.max_body_bytes:
        raise _too_large(settings)
    body = bytearray()
    try:
        async with asyncio.timeout(settings.body_timeout):
            async for part in request.stream():
                if len(body) + len(part) > settings.max_body_bytes:
                    raise _too_large(settings)
                body += part
    except TimeoutError:
        message = f"the body was not there after {settings.body_timeout:g} seconds"
        raise ApiError(408, message, code="body_timeout", headers={"Connection": "close"}) from None
    except ClientDisconnect:
        raise ApiError(400, "the connection ended before the body", code="incomplete_body") from None
    return bytes(body)


def require_json(request: Request) -> None:
    """Raise `ApiError` (415) unless the body is declared as JSON.

    A browser sends anything else to any server without asking it, on behalf of any page.
    """
    declared = request.headers.get("content-type", "")
    if declared.partition(";")[0].strip().lower() != "application/json":
        raise ApiError(
            415, f"the Content-Type must be application/json, got {declared!r}", code="unsupported_media_type"
        )


def _too_large(settings: ServerSettings) -> ApiError:
    return ApiError(413, f"the body has more than {settings.max_body_bytes:,} bytes", code="body_too_large")
