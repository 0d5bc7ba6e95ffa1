"""Extends uvicorn's HTTP connection with deadlines, a header limit and a lingering close."""

import logging
import re
import time
from asyncio import Transport
from asyncio.events import TimerHandle
from collections.abc import Callable
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from mini_vllm_labs.serving.errors import ApiError, unavailable
from mini_vllm_labs.serving.settings import ServerSettings, num_free_files

CallLater = Callable[..., TimerHandle]
IDLE_SECONDS = 2.0
SPARE_FILES, SECONDS_BETWEEN_WARNINGS = 16, 10.0
logger = logging.getLogger(__name__)
# Java's client offers HTTP/2 with every request. A server may ignore the offer, but httptools would skip the body.
OFFER_OF_HTTP2 = re.compile(rb"\r\nUpgrade:[ \t]*h2c[ \t]*(?=\r\n|\Z)", re.IGNORECASE)


class Timer:
    """Calls a function a set number of seconds after the last `start`, unless it is stopped first."""

    def __init__(self, seconds: float, function: Callable[[], None]) -> None:
        self._seconds, self._function = seconds, function
        self._handle: TimerHandle | None = None

    def start(self, call_later: CallLater) -> None:
        self.stop()
        self._handle = call_later(self._seconds, self._function)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class LingeringTransport:
    """Wraps a transport so that it closes in two halves while `is_client_sending`.

    Closing a socket with unread data resets the connection, and an answer still in transit would be lost. The write
    side is therefore closed first, and incoming data is discarded until the client closes its side, is silent for
    `IDLE_SECONDS`, or has been sending for `max_seconds`. (nginx: `lingering_close`.)
    """

    def __init__(self, transport: Transport, call_later: CallLater, max_seconds: float) -> None:
        self._transport, self._call_later = transport, call_later
        self._idle = Timer(IDLE_SECONDS, transport.close)
        self._deadline = Timer(max_seconds, transport.close)
        self._is_lingering = False
        self.is_client_sending = False

    def __getattr__(self, name: str) -> Any:  # uvicorn uses more attributes of its transport than this class wraps
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write the data unless the write side has been closed, which the application cannot know."""
        if not self._is_lingering:
            self._transport.write(data)

    def close(self) -> None:
        if self._is_lingering:
            return
        if not self.is_client_sending or self._transport.is_closing():
            self._transport.close()
            return
        self._is_lingering = True
        self._transport.write_eof()
        self._transport.resume_reading()  # uvicorn may have paused reading, and unread data would reset the connection
        self._idle.start(self._call_later)
        self._deadline.start(self._call_later)

    def is_closing(self) -> bool:
        return self._is_lingering or self._transport.is_closing()

    def throws_away(self, data: bytes) -> bool:
        """Return whether to discard incoming data."""
        if self._is_lingering and data:
            self._idle.start(self._call_later)
        return self._is_lingering

    def stop(self) -> None:
        """Stop both timers because the connection is lost."""
        self._idle.stop()
        self._deadline.stop()


class ConnectionLimit:
    """The number of connections that the process has file descriptors for, minus `SPARE_FILES` for everything else.

    If no file descriptor is free, uvloop 0.23.0 closes a new connection and logs nothing, so connections over the limit
    are refused with a reason. A warning is logged at most once every `SECONDS_BETWEEN_WARNINGS` seconds.
    """

    def __init__(self) -> None:
        self.max_connections = max(1, num_free_files() - SPARE_FILES)
        self._next_warning = 0.0

    def refusal(self, num_connections: int) -> ApiError | None:
        """Return the error for a new connection that brings the total to `num_connections`, or None if it may stay."""
        if num_connections <= self.max_connections:
            return None
        message = f"the server has {self.max_connections:.0f} connections, as many as its limit of open files allows"
        if time.monotonic() >= self._next_warning:
            self._next_warning = time.monotonic() + SECONDS_BETWEEN_WARNINGS
            logger.warning("%s: new ones are refused. `ulimit -n` shows the limit", message)
        return unavailable(message, "too_many_connections")


class Connection(HttpToolsProtocol):
    """A connection with deadlines for headers and for a client that does not read.

    A half-open connection therefore occupies a socket for a few seconds, but never delays other clients' requests.
    """

    def __init__(self, *args: Any, settings: ServerSettings, limit: ConnectionLimit, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._settings, self._limit = settings, limit
        self._header_timer = Timer(settings.header_timeout, self._header_is_late)
        self._send_timer = Timer(settings.send_timeout, self._client_reads_nothing)
        self._num_header_bytes = 0
        self._is_in_header = True
        self._is_last_request = False
        self._refusal: ApiError | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        self._lingering = LingeringTransport(transport, self.loop.call_later, self._settings.header_timeout)
        super().connection_made(cast(Transport, self._lingering))
        self._header_timer.start(self.loop.call_later)
        if (refusal := self._limit.refusal(len(self.connections))) is not None:
            self._refuse(refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        self._header_timer.stop()
        self._send_timer.stop()
        self._lingering.stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._lingering.throws_away(data):
            return
        if self._is_in_header:
            header, end, rest = data.partition(b"\r\n\r\n")
            if end and not self._num_header_bytes:
                # accepts only a complete header, so that a body that arrives in pieces stays unchanged
                data = OFFER_OF_HTTP2.sub(b"", header) + end + rest
            self._num_header_bytes += len(data)  # must come before `super`, which resets the count after a message
        super().data_received(data)
        if self._is_in_header and self._num_header_bytes > self._settings.max_header_bytes:
            self._refuse(self._header_too_large())

    def on_headers_complete(self) -> None:
        self._is_in_header, self._lingering.is_client_sending = False, True
        self._header_timer.stop()
        if (
            # Count again, because a body may arrive in the same chunk of data as its header.
            len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
            > self._settings.max_header_bytes
        ):
            self._refusal = self._header_too_large()
            # uvicorn does not have a public hook for this. A callback can stop httptools' parser only by raising an
            # exception; uvicorn treats it as invalid HTTP and calls `send_400_response`. To skip the request instead,
            # we would also have to override `on_body`, which relies on every request having a cycle.
            raise ValueError("the header is too large")
        super().on_headers_complete()
        if self._is_last_request:
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._is_in_header, self._num_header_bytes = True, 0
        self._lingering.is_client_sending = False

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing():
            # The timer keeps running while a client is still sending the body of a refused request, which is discarded.
            self._header_timer.start(self.loop.call_later)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._send_timer.start(self.loop.call_later)

    def resume_writing(self) -> None:
        self._send_timer.stop()
        super().resume_writing()

    def shutdown(self) -> None:
        """Allow at most one more request, and refuse it because the server is shutting down."""
        self._is_last_request = True
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def close_if_idle(self) -> None:
        """Close the connection unless an answer is in progress."""
        if self._is_idle:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that is not HTTP or whose header is too large."""
        self._refuse(self._refusal or ApiError(400, "this is not a valid HTTP request", code="invalid_http"))

    @property
    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _header_is_late(self) -> None:
        if self._num_header_bytes and self._is_in_header:
            message = f"the header was not there after {self._settings.header_timeout:g} seconds"
            self._refuse(ApiError(408, message, code="header_timeout"))
        else:
            self.transport.close()  # no request has started, so there is nothing to answer

    def _client_reads_nothing(self) -> None:
        self.logger.warning(
            "a client has read nothing for %g seconds: its connection is closed", self._settings.send_timeout
        )
        self.transport.abort()  # `close` would wait until the client had read the rest

    def _header_too_large(self) -> ApiError:
        message = f"the header has more than {self._settings.max_header_bytes:,} bytes"
        return ApiError(431, message, code="header_too_large")

    def _refuse(self, error: ApiError) -> None:
        """Answer with an error and close the connection. If another answer is already in progress, only close the
        connection."""
        if self.transport.is_closing():
            return
        if not self._is_idle:  # otherwise, an error would appear in the middle of the answer being sent
            self.transport.close()
            return
        response = error.response()
        headers = [*response.raw_headers, (b"connection", b"close")]
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        self.transport.write(STATUS_LINE[error.status] + lines + b"\r\n" + bytes(response.body))
        # We cannot know where the rest of the client's request ends.
        self._lingering.is_client_sending = True
        self.transport.close()
