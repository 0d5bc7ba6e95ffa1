"""A close that the client survives: what it still sends is read, so that it gets to see its answer."""

from asyncio import Transport
from asyncio.events import TimerHandle
from collections.abc import Callable
from typing import Any

CallLater = Callable[..., TimerHandle]
IDLE_SECONDS = 2.0


class Timer:
    """Calls a function once, a time after it was last started, unless it is stopped."""

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
    """A transport that is closed in two halves while `is_client_sending`. All else is as with the one inside.

    To close a socket with data that was not read resets the connection, and an answer that is on its way is lost. So
    the half that writes is closed first, and what comes is thrown away: until the client closes its half, sends nothing
    for `IDLE_SECONDS`, or has sent for `most_seconds`. (nginx: `lingering_close`.)
    """

    def __init__(self, transport: Transport, call_later: CallLater, most_seconds: float) -> None:
        self._transport, self._call_later = transport, call_later
        self._idle = Timer(IDLE_SECONDS, transport.close)
        self._most = Timer(most_seconds, transport.close)
        self._is_lingering = False
        self.is_client_sending = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Write, unless that half is closed: an application that still answers then is not to blame."""
        if not self._is_lingering:
            self._transport.write(data)

    def close(self) -> None:
        """Close at once, or begin to."""
        if self._is_lingering:
            return
        if not self.is_client_sending or self._transport.is_closing():
            self._transport.close()
            return
        self._is_lingering = True
        self._transport.write_eof()
        self._transport.resume_reading()
        self._idle.start(self._call_later)
        self._most.start(self._call_later)

    def is_closing(self) -> bool:
        """Return whether nothing can be written any more."""
        return self._is_lingering or self._transport.is_closing()

    def throws_away(self, data: bytes) -> bool:
        """Return whether the data that has come is not to be read."""
        if self._is_lingering and data:
            self._idle.start(self._call_later)
        return self._is_lingering

    def stop(self) -> None:
        """Wait for nothing more: the connection is lost."""
        self._idle.stop()
        self._most.stop()
