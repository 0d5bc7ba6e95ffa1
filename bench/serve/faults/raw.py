"""Bytes on a connection, whatever they are: for what no HTTP client would send."""

import asyncio
import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from bench.serve.endpoint import Endpoint

LONGEST_ANSWER = 1 << 20
TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """What a server said before it closed the connection; status 0: nothing."""

    status: int
    body: bytes

    @property
    def is_openai_error(self) -> bool:
        """Whether the body is an error in OpenAI's form."""
        try:
            error = json.loads(self.body)["error"]
            return isinstance(error["message"], str) and {"type", "param", "code"} <= error.keys()
        except (ValueError, TypeError, KeyError):
            return False

    def __str__(self) -> str:
        return f"HTTP {self.status}: {self.body[:80].decode(errors='replace')}" if self.status else "no answer"


async def send_raw(endpoint: Endpoint, parts: Iterable[bytes]) -> RawAnswer:
    """Send bytes, part by part, as long as the server takes them; return what it says. Never raises because of it."""
    try:
        async with asyncio.timeout(TIMEOUT):
            reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port)
            try:
                sending = asyncio.create_task(_send(writer, parts))
                answer = await _read(reader)
                sending.cancel()
                with suppress(asyncio.CancelledError):
                    await sending
            finally:
                writer.transport.abort()
            return answer
    except (OSError, TimeoutError):
        return RawAnswer(0, b"")


async def _send(writer: asyncio.StreamWriter, parts: Iterable[bytes]) -> None:
    with suppress(OSError):
        for part in parts:
            writer.write(part)
            await writer.drain()


async def _read(reader: asyncio.StreamReader) -> RawAnswer:
    received = b""
    with suppress(OSError):
        while len(received) < LONGEST_ANSWER and (data := await reader.read(1 << 16)):
            received += data
    head, _, body = received.partition(b"\r\n\r\n")
    words = head.split(None, 2)
    status = int(words[1]) if len(words) > 1 and words[0].startswith(b"HTTP/") and words[1].isdigit() else 0
    return RawAnswer(status, body)
