"""Rejects request bodies that are too large or too slow, and requests to unknown host names, before a route answers.

Without the host name check, a web page could talk to the server through the browser (DNS rebinding). The page's name
would then resolve to this machine, and the browser would send that name as `Host`. A request also ends when its client
disconnects.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from urllib.parse import urlsplit

from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Receive, Scope, Send

from mini_vllm_labs.serving.errors import ApiError
from mini_vllm_labs.serving.settings import ServerSettings

# maximum number of values in a body: parsing 2,000,000 short lists blocks every stream for a second
MAX_VALUES = 250_000
LOCAL = ("localhost", "127.0.0.1", "::1")


async def read_body(request: Request, settings: ServerSettings) -> bytes:
    """Return the body without holding more than the limit in memory.

    Raises `ApiError`: 413 as soon as the body exceeds the limit, 408 if the client takes too long to send it, 415 if
    its declared type is not JSON.
    """
    require_json(request)
    if int(request.headers.get("content-length", 0)) > settings.max_body_bytes:
        # httptools has already checked that this is a number
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
        # The connection is closed because more of the body may still arrive.
        raise ApiError(408, message, code="body_timeout", headers={"Connection": "close"}) from None
    except ClientDisconnect:
        raise ApiError(400, "the connection ended before the whole body arrived", code="incomplete_body") from None
    if sum(map(body.count, b",[{")) > MAX_VALUES:
        raise ApiError(413, f"the body contains more than {MAX_VALUES:,} values", code="body_too_large")
    return bytes(body)


def require_json(request: Request) -> None:
    """Raise `ApiError` (415) unless the body is declared as JSON.

    Any web page can make a browser send other types to this server without a preflight request, but not JSON.
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
    """Run the `with` block; if the client disconnects, cancel it at its next `await`, as `asyncio.timeout` does on
    expiry.

    The caller must have read the request's body. The block then ends silently, because there is no client left to
    inform.
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
        if not is_gone or task.uncancel() > 0:
            # a positive count means that something else, such as a shutdown, has also cancelled the task
            raise
    finally:
        watcher.cancel()


class KnownHosts:
    """ASGI middleware that refuses requests (403) whose `Host` or `Origin` is not one of this server's names.

    The server's names are this machine's names, the address to which the server is bound, and `allowed_hosts`. A server
    that listens to other machines also accepts every numeric address, because such an address needs no DNS lookup. `*`
    allows every name.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self.app = app
        # The empty name is excluded, because `name_of` returns it for a malformed header and for the `null` origin.
        self.known = {*LOCAL, settings.host.lower(), *(name_of(f"//{host}") for host in settings.allowed_hosts)} - {""}
        self.is_local = settings.host in LOCAL
        self.allows_all = "*" in settings.allowed_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not self.allows_all:
            for header, value in scope["headers"]:
                text = value.decode("latin-1")
                if header in (b"host", b"origin") and not self._is_known(text if header == b"origin" else f"//{text}"):
                    await refusal(header.decode().title(), text).response()(scope, receive, send)
                    return
        await self.app(scope, receive, send)

    def _is_known(self, url: str) -> bool:
        name = name_of(url)
        return name in self.known or (not self.is_local and is_address(name))


def name_of(url: str) -> str:
    """Return a URL's host in lower case, without port and final dot, or an empty string if it has none."""
    try:
        parts = urlsplit(url)
        return "" if "@" in parts.netloc or parts.path.strip("/") else (parts.hostname or "").rstrip(".")
    except ValueError:
        return ""


def is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def refusal(header: str, value: str) -> ApiError:
    """Return the error for a request whose `Host` or `Origin` is not one of this server's names."""
    message = f"{header} {value[:100]!r} is not a name of this server; if it should be: serve --allowed-host NAME"
    return ApiError(403, message, code="host_not_allowed")
