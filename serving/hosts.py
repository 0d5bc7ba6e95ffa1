"""Which names this server answers to: a web page on a name of its own could else talk to it through the browser.

Such a page needs only a name that resolves to this machine (DNS rebinding). The browser then sends that name as `Host`.
"""

from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from serving.errors import ApiError
from serving.settings import ServerSettings

LOCAL = ("localhost", "127.0.0.1", "::1")


class KnownHosts:
    """An ASGI middleware that refuses requests (403) whose `Host` or `Origin` is another server's name.

    Known are this machine's own names, the address that the server is bound to or was reached at, `allowed_hosts`, and
    any numeric address if the server listens to other machines: no name resolves to it. `*` allows every name.
    """

    def __init__(self, app: ASGIApp, settings: ServerSettings) -> None:
        self.app = app
        # Not the empty name: it is what a malformed header or the origin `null` has.
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
    """Return the host in a URL, in lower case and without port and final dot; empty if there is none."""
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
    """Return the error for a request to, or from a page of, a server that this one is not."""
    message = f"{header} {value[:100]!r} is not a name of this server; if it should be: serve --allowed-host NAME"
    return ApiError(403, message, code="host_not_allowed")
