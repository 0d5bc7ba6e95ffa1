"""The process that draws, seen from the server: started when the first page opens, ended with the last."""

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
class Look:
    """The picture that a page wants: `step` None is the newest, `follow` is the id of a request, or empty.

    `width` and `height` are the room for it in px. The text of the picture is made only on request.
    """

    step: int | None = None
    width: int = 720
    height: int = 480
    follow: str = ""
    with_text: bool = False


class DrawingEndedError(RuntimeError):
    """The process that draws has ended unexpectedly; its log is on standard error."""


class DrawingProcess:
    """Passes the recorder's bytes on and returns pictures as bytes of JSON.

    So a picture costs this process a write to a pipe and a read, in another thread, whatever it shows.
    """

    def __init__(self, facts: dict[str, Any]) -> None:
        self._facts = facts
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = asyncio.Lock()  # answers carry no name: questions must not overlap on the pipe
        self.next_step = 0  # the first step that the process lacks

    async def draw(self, viewer: str, look: Look, chunks: list[Chunk]) -> bytes:
        """Return what a page lacks for its picture. `chunks` have the steps from `next_step` on.

        Raises `DrawingEndedError`; the next call starts a new process.
        """
        async with self._lock:
            try:
                process = self._process or self._start()
                picture = await asyncio.to_thread(ask, process, "draw", viewer, look, chunks)
            except (OSError, EOFError) as error:
                self._end()
                raise DrawingEndedError("the process that draws has ended: see the server's log") from error
            except asyncio.CancelledError:
                self._end()  # the answer is still on its way, and would be mistaken for the next one
                raise
            self.next_step = max([self.next_step, *(chunk.end for chunk in chunks)])
            return picture

    async def forget(self, viewer: str) -> None:
        async with self._lock:
            with suppress(OSError):  # it has ended, and remembers no page
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
        process.kill()  # not `terminate`: it keeps nothing that would be lost
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with suppress(OSError):  # what was not sent any more
                assert pipe is not None
                pipe.close()


def send(process: "subprocess.Popen[bytes]", *message: object) -> None:
    """Send a message. Raises `OSError` if the process has ended."""
    assert process.stdin is not None
    pickle.dump(message, process.stdin, pickle.HIGHEST_PROTOCOL)
    process.stdin.flush()


def ask(process: "subprocess.Popen[bytes]", *message: object) -> bytes:
    """Send a message and return its answer. Raises `OSError` or `EOFError` if the process has ended."""
    send(process, *message)
    assert process.stdout is not None
    answer: bytes = pickle.load(process.stdout)
    return answer
