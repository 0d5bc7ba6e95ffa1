"""Limits on what a client may cost: the size and time of a body, and nothing once the client has gone."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.types import Receive

from serving.errors import ApiError
from serving.settings import ServerSettings


async def read_body(request: Request, settings: ServerSettings) -> bytes:
    """Return the body, holding no more of it in memory than the limit.

    Raises `ApiError`: 413 as soon as it is known to be too large, 408 if the client takes too long to send it, 415 if
    it is declared as something other than JSON.
    """
    require_json(request)
    if int(request.headers.get("content-length", 0)) > settings.max_body_bytes:  # httptools has checked the number
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
        # Closed, because the rest of the body may still come.
        raise ApiError(408, message, code="body_timeout", headers={"Connection": "close"}) from None
    except ClientDisconnect:
        raise ApiError(400, "the connection ended before the body", code="incomplete_body") from None
    return bytes(body)


def require_json(request: Request) -> None:
    """Raise `ApiError` (415) unless the body is declared as JSON.

    Any web page can make a browser send other types to this server without asking it first; JSON it cannot.
    """
    declared = request.headers.get("content-type", "")
    if declared.partition(";")[0].strip().lower() != "application/json":
        raise ApiError(
            415, f"the Content-Type must be application/json, got {declared!r}", code="unsupported_media_type"
        )


def _too_large(settings: ServerSettings) -> ApiError:
    return ApiError(413, f"the body has more than {settings.max_body_bytes:,} bytes", code="body_too_large")


@asynccontextmanager
async def ended_by_disconnect(receive: Receive) -> AsyncIterator[None]:
    """Run the block, and cancel it at its next `await` if the client goes away, as `asyncio.timeout` does on expiry.

    The request's body must have been read before. The block ends silently: there is no client left to tell.
    """
    task = asyncio.current_task()
    assert task is not None
    is_gone = False

    async def watch() -> None:
        nonlocal is_gone
        while (await receive())["type"] != "http.disconnect":
            pass
        is_gone = True
        task.cancel()

    watcher = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if not is_gone or task.uncancel() > 0:  # over 0: something else, such as a shutdown, cancelled it too
            raise
    finally:
        watcher.cancel()
