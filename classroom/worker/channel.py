"""Messages over a socket: four bytes of length, then JSON. What the other end sends is never trusted."""

import json
import socket
import struct
import time
from typing import Any

MOST_BYTES = 4 * 2**20
HEADER = struct.Struct(">I")
Message = dict[str, Any]


class LinkDownError(Exception):
    """There is nobody to talk to any more. `reason` is "gone", "late" or "garbled"."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class Channel:
    """One end. `deadline` (on `time.monotonic`) holds for sending and receiving; None waits for ever."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self.deadline: float | None = None

    def send(self, message: Message) -> None:
        """Raises `LinkDownError`, or `ValueError` for what cannot be sent."""
        content = json.dumps(message, allow_nan=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
        if len(content) > MOST_BYTES:
            raise ValueError(f"an answer of {len(content):,} bytes is too long: at most {MOST_BYTES:,} can be sent")
        self._in_time()
        try:
            self._end.sendall(HEADER.pack(len(content)) + content)
        except TimeoutError:
            raise LinkDownError("late", "no answer in time") from None
        except OSError:
            raise LinkDownError("gone", "the process has ended") from None

    def receive(self) -> Message:
        """Raises `LinkDownError`."""
        (length,) = HEADER.unpack(self._read(HEADER.size))
        if length > MOST_BYTES:
            raise LinkDownError("garbled", f"a message of {length:,} bytes was announced")
        try:
            message = json.loads(self._read(length), parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            raise LinkDownError("garbled", f"a message is no plain JSON ({type(error).__name__})") from None
        if not isinstance(message, dict):
            raise LinkDownError("garbled", "a message is no object")
        return message

    def close(self) -> None:
        self._end.close()

    def _read(self, size: int) -> bytes:
        parts, missing = [], size
        while missing:
            self._in_time()
            try:
                part = self._end.recv(min(missing, 1 << 16))
            except TimeoutError:
                raise LinkDownError("late", "no answer in time") from None
            except OSError:
                part = b""
            if not part:
                raise LinkDownError("gone", "the process has ended")
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def _in_time(self) -> None:
        if self.deadline is None:
            self._end.settimeout(None)
            return
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise LinkDownError("late", "no answer in time")
        self._end.settimeout(left)


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
