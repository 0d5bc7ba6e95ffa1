"""One HTTP/1.1 request on one connection, with as little Python per chunk as possible: the server shares the cores."""

import asyncio
from collections.abc import Callable

import httptools

OnBody = Callable[[bytes], None]
LONGEST_REFUSAL = 10_000


class BrokenAnswerError(Exception):
    """A server's answer ended early or is not what it should be; the message says how."""


class HttpExchange(asyncio.Protocol):
    """Sends `request` when connected; `on_body` is called with every part of the body of an answer with status 200.

    The body of any other answer is kept in `refusal`. `finished` is set when the answer is whole; it raises
    `BrokenAnswerError` if it never will be.
    """

    def __init__(self, request: bytes, on_body: OnBody) -> None:
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # An exchange that times out while it connects is awaited no more; asyncio would report its error at the end.
        self.finished.add_done_callback(lambda finished: finished.cancelled() or finished.exception())
        self.status = 0
        self.transport: asyncio.Transport | None = None
        self.num_bytes = 0
        self.refusal = b""
        self._request, self._on_body = request, on_body
        self._parser = httptools.HttpResponseParser(self)
        self._has_length = self._has_headers = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self.num_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            cause = error.__context__
            self._end(cause if isinstance(cause, BrokenAnswerError) else BrokenAnswerError(f"not HTTP: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._has_headers and not self._has_length and exc is None:
            self._end(None)
        elif self.num_bytes == 0:
            self._end(BrokenAnswerError(f"no answer: the connection was closed{f' ({exc})' if exc else ''}"))
        else:
            self._end(BrokenAnswerError("the connection was cut before the answer's end"))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser."""
        self._has_length |= name.lower() in (b"content-length", b"transfer-encoding")

    def on_headers_complete(self) -> None:
        """Called by the parser."""
        self._has_headers, self.status = True, self._parser.get_status_code()

    def on_body(self, body: bytes) -> None:
        """Called by the parser."""
        if self.status == 200:
            self._on_body(body)
        elif len(self.refusal) < LONGEST_REFUSAL:
            self.refusal += body

    def on_message_complete(self) -> None:
        """Called by the parser."""
        self._end(None)

    def close(self) -> None:
        """End the connection at once; what has not arrived is lost."""
        if self.transport is not None:
            self.transport.abort()

    def _end(self, error: BrokenAnswerError | None) -> None:
        if not self.finished.done():
            if error is None:
                self.finished.set_result(None)
            else:
                self.finished.set_exception(error)
        if self.transport is not None:
            self.transport.close()
