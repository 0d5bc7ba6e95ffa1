"""One request to an ASGI application without a socket: its answer as it comes."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message


@dataclass(frozen=True)
class PlainRequest:
    """A request that can be sent to another process."""

    method: str
    path: str
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def scope(self) -> dict[str, Any]:
        """Return the request as ASGI describes it."""
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "scheme": "http",
            "method": self.method,
            "path": self.path,
            "raw_path": self.path.encode(),
            "query_string": self.query,
            "headers": self.headers,
        }


async def call_app(app: ASGIApp, request: PlainRequest) -> AsyncGenerator[Message, None]:
    """Yield the messages of the answer. If the reader leaves early, the application sees a client that hangs up."""
    messages: asyncio.Queue[Message | None] = asyncio.Queue(maxsize=1)
    is_read, has_left = False, asyncio.Event()

    async def receive() -> Message:
        nonlocal is_read
        if not is_read:
            is_read = True
            return {"type": "http.request", "body": request.body, "more_body": False}
        await has_left.wait()
        return {"type": "http.disconnect"}

    async def answer() -> None:
        try:
            await app(request.scope(), receive, messages.put)
        finally:
            await messages.put(None)

    answering = asyncio.create_task(answer())
    try:
        while (message := await messages.get()) is not None:
            yield message
        await answering
    finally:
        has_left.set()
        while not answering.done():  # what it still wants to say is thrown away
            if messages.empty():
                await asyncio.wait([answering], timeout=0.05)
            else:
                messages.get_nowait()
