"""Sends messages between a worker and its parent over pipes, each as a secret mark plus a JSON line.

The worker takes over its stdin and stdout before it loads untrusted code, so that the code's output is sent elsewhere.
A line without the mark is never read as a message. A line cut off because its process was killed does not affect other
lines. A line of any length uses a bounded amount of memory.
"""

import json
import os
import select
import sys
import time
from typing import Any, Literal

MAX_BYTES = 4 * 2**20
CHUNK = 1 << 16
Message = dict[str, Any]


class ChannelError(Exception):
    """The other end closed the channel, timed out, or sent a malformed message; `reason` says which of these
    happened."""

    def __init__(self, reason: Literal["closed", "timeout", "malformed"], text: str) -> None:
        super().__init__(text)
        self.reason = reason


class Channel:
    """One end of the channel, which sends on one pipe and receives on the other. `mark` precedes every message in both
    directions."""

    def __init__(self, read_fd: int, write_fd: int, mark: str, max_bytes: int = MAX_BYTES) -> None:
        self._read_fd = read_fd
        self._write_fd = write_fd
        self._mark = mark.encode()
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._is_skipping = False

    def send(self, message: Message, deadline: float | None = None) -> None:
        """Write one message, and give up at `deadline` (on `time.monotonic`) if the pipe is non-blocking.

        Raises `ChannelError`, and `ValueError` for a message that is too long or contains NaN or infinity.
        """
        content = encoded(message)
        if len(content) > self._max_bytes:
            raise ValueError(
                f"an answer of {len(content):,} bytes is too long: at most {self._max_bytes:,} bytes can be sent"
            )
        # The leading line break ends any line that was cut off.
        rest = memoryview(b"\n" + self._mark + content + b"\n")
        while rest:
            try:
                rest = rest[os.write(self._write_fd, rest) :]
            except BlockingIOError:
                self._wait_for_room(deadline)
            except OSError:
                raise ChannelError("closed", "the process has exited") from None

    def receive(self) -> Message:
        """Wait for one message and return it. Raises `ChannelError`; after a "malformed" error, the method may be
        called again."""
        return decoded(self.receive_encoded())

    def receive_encoded(self) -> bytes:
        """Wait for one message and return it without decoding it. Raises the same errors as `receive`."""
        while not (line := self._line()):
            pass
        if not line.startswith(self._mark):
            raise ChannelError("malformed", "a line does not start the way a message must")
        return line[len(self._mark) :]

    def take_back(self) -> None:
        """Make the pipes usable after a fork whose child answered buffered messages and may have made the pipes
        non-blocking."""
        self._buffer.clear()
        os.set_blocking(self._read_fd, True)
        os.set_blocking(self._write_fd, True)

    def _line(self) -> bytes:
        """Return the next line without its line ending. Raises `ChannelError` once for a line that is too long."""
        start = 0
        while True:
            end = self._buffer.find(b"\n", start)
            if end >= 0:
                line, skipped = bytes(self._buffer[:end]), self._is_skipping
                del self._buffer[: end + 1]
                self._is_skipping = False
                return b"" if skipped else line
            if len(self._buffer) > self._max_bytes + len(self._mark):
                self._buffer.clear()
                if not self._is_skipping:
                    self._is_skipping = True
                    raise ChannelError("malformed", f"a message is longer than {self._max_bytes:,} bytes")
            start = len(self._buffer)  # already searched
            try:
                chunk = os.read(self._read_fd, CHUNK)
            except OSError:
                chunk = b""
            if not chunk:
                raise ChannelError("closed", "the process has exited")
            self._buffer += chunk

    def _wait_for_room(self, deadline: float | None) -> None:
        left = None if deadline is None else 1000 * max(0.0, deadline - time.monotonic())
        waiting = select.poll()  # `select.select` rejects descriptors above 1023
        waiting.register(self._write_fd, select.POLLOUT)
        if not waiting.poll(left):
            raise ChannelError("timeout", "the process is not reading its input")


def encoded(message: Message) -> bytes:
    """Return a message in wire format. Raises `ValueError` for NaN and infinity."""
    return json.dumps(message, allow_nan=False, separators=(",", ":")).encode()


def decoded(content: bytes) -> Message:
    """Return the message that was sent as `content`. Raises `ChannelError` if it is malformed."""
    try:
        message = json.loads(content, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ChannelError("malformed", f"a message is not plain JSON ({type(error).__name__})") from None
    if not isinstance(message, dict):
        raise ChannelError("malformed", "a message is not a JSON object")
    return message


def take_stdio(max_bytes: int = MAX_BYTES) -> Channel:
    """Turn stdin and stdout into the worker's end of the channel.

    From then on, stdin is empty and stdout is redirected to stderr. The first line of stdin is the mark.
    """
    read_fd, write_fd = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)  # otherwise, `input()` in untrusted code would read our messages
    os.close(null)
    sys.stdout.flush()
    os.dup2(2, 1)
    channel = Channel(read_fd, write_fd, "", max_bytes)
    channel._mark = channel._line()
    return channel


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
