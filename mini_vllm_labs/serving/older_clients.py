"""Answers HTTP/1.0 clients, which do not support chunked bodies: uvicorn would write the chunk lengths into the
text."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class WholeAnswers:
    """ASGI middleware that sends a complete answer to an HTTP/1.0 client in one piece, with its length."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["http_version"] != "1.0":
            await self.app(scope, receive, send)
            return
        start: Message = {}
        body = bytearray()

        async def collect(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = message
                return
            body.extend(message.get("body", b""))
            if not message.get("more_body", False):
                headers = [pair for pair in start["headers"] if pair[0].lower() != b"content-length"]
                await send({**start, "headers": [*headers, (b"content-length", str(len(body)).encode())]})
                await send({"type": "http.response.body", "body": bytes(body)})

        await self.app(scope, receive, collect)
