"""The server notes what it is asked and what it answers."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serving.notebook.exchange import Exchange

NOT_NOTED = "/notebook/"
RUN = "/notebook/run"


class Noted:
    """An application that appends each exchange to a list when it ends, in the order in which they began."""

    def __init__(self, app: ASGIApp, exchanges: list[Exchange]) -> None:
        self.app, self.exchanges = app, exchanges

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] != "http" or (path.startswith(NOT_NOTED) and path != RUN):
            await self.app(scope, receive, send)
            return
        asked, answer, status, headers = bytearray(), bytearray(), 0, dict[str, str]()
        place = len(self.exchanges)
        self.exchanges.append(Exchange(scope["method"], path, "", 0, {}, ""))

        async def hear() -> Message:
            message = await receive()
            asked.extend(message.get("body", b""))
            return message

        async def say(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers.update({name.decode().lower(): value.decode() for name, value in message["headers"]})
            answer.extend(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, hear, say)
        finally:
            self.exchanges[place] = Exchange(
                scope["method"], path, asked.decode(), status, headers, answer.decode(errors="replace")
            )
