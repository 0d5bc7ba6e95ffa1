"""Runs the drawing process for the server, from the first page that opens until the last page closes."""

import asyncio
import pickle
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from mini_vllm_labs.serving.live.packed_steps import Chunk

COMMAND = (sys.executable, "-m", "mini_vllm_labs.serving.live.drawing")


@dataclass(frozen=True)
class WantedPicture:
    """The picture that a page wants. A `step` of None means the newest step; `follow` is a request's id, or empty.

    `width` and `height` are the available size in px. The picture's text is generated only on request.
    """

    step: int | None = None
    width: int = 720
    height: int = 480
    follow: str = ""
    with_text: bool = False


class DrawingEndedError(RuntimeError):
    """The drawing process exited unexpectedly; its log is on standard error."""


class DrawingProcess:
    """Forwards the recorder's bytes to the drawing process and returns pictures as bytes of JSON.

    Each picture costs this process only a write to a pipe and a read in a separate thread.
    """

    def __init__(self, facts: dict[str, Any]) -> None:
        self._facts = facts
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = asyncio.Lock()  # answers have no id, so calls on the pipe must not overlap
        self.next_step = 0  # the first step not yet sent to the process

    async def draw(self, viewer: str, look: WantedPicture, chunks: list[Chunk]) -> bytes:
        """Return the message that updates a page's picture. `chunks` contains the steps from `next_step` on.

        Raises `DrawingEndedError`; the next call starts a new process.
        """
        async with self._lock:
            try:
                process = self._process or self._start()
                picture = await asyncio.to_thread(ask, process, "draw", viewer, look, chunks)
            except (OSError, EOFError) as error:
                self._end()
                raise DrawingEndedError("the drawing process has exited: see the server's log") from error
            except asyncio.CancelledError:
                self._end()  # a late answer to this call would be mistaken for the answer to the next one
                raise
            self.next_step = max([self.next_step, *(chunk.end for chunk in chunks)])
            return picture

    async def forget(self, viewer: str) -> None:
        async with self._lock:
            with suppress(OSError):  # the process has exited, and its pages are lost
                if self._process is not None:
                    send(self._process, "close", viewer)

    async def close(self) -> None:
        async with self._lock:
            self._end()

    def _start(self) -> "subprocess.Popen[bytes]":
        self._process = subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        send(self._process, "begin", self._facts)
        return self._process

    def _end(self) -> None:
        process, self._process, self.next_step = self._process, None, 0
        if process is None:
            return
        process.kill()  # `kill` instead of `terminate`, because the process has no state to save
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):  # data that has not been sent yet is lost
                assert pipe is not None
                pipe.close()


def send(process: "subprocess.Popen[bytes]", *message: object) -> None:
    """Send a message. Raises `OSError` if the process has exited."""
    assert process.stdin is not None
    pickle.dump(message, process.stdin, pickle.HIGHEST_PROTOCOL)
    process.stdin.flush()


def ask(process: "subprocess.Popen[bytes]", *message: object) -> bytes:
    """Send a message and return the reply. Raises `OSError` or `EOFError` if the process has exited."""
    send(process, *message)
    assert process.stdout is not None
    answer: bytes = pickle.load(process.stdout)
    return answer
