"""The process that draws, as the server sees it: started when the first page opens, ended with the last."""

import asyncio
import pickle
import struct
import sys
from contextlib import suppress
from typing import Any

from serving.live.chunks import Chunk
from serving.live.drawing.look import Look

LENGTH = struct.Struct(">I")
END_SECONDS = 2.0


class DrawingEndedError(RuntimeError):
    """The process that draws has ended by itself; its log is on standard error."""


class DrawingProcess:
    """Gets the steps as the bytes that the recorder made of them, and returns pictures as bytes of JSON.

    So a picture costs this process two writes to pipes, whatever it shows.
    """

    def __init__(self, facts: dict[str, Any]) -> None:
        self._facts = facts
        self._process: asyncio.subprocess.Process | None = None
        self._lock = asyncio.Lock()
        self._next_step = 0

    @property
    def pid(self) -> int | None:
        """The process's id while there is one."""
        return None if self._process is None else self._process.pid

    @property
    def next_step(self) -> int:
        """The first step that the process does not have."""
        return self._next_step

    async def draw(self, viewer: str, look: Look, chunks: list[Chunk]) -> bytes:
        """Return what a page lacks for its picture. `chunks` are the steps from `next_step` on.

        Raises `DrawingEndedError`; the next call starts a new process.
        """
        async with self._lock:
            try:
                if self._process is None:
                    await self._start()
                chunks = [chunk for chunk in chunks if chunk.first + len(chunk.steps) > self._next_step]
                self._send("feed", chunks)
                if chunks:
                    self._next_step = chunks[-1].first + len(chunks[-1].steps)
                return await self._ask("draw", viewer, look)
            except (OSError, asyncio.IncompleteReadError) as error:
                await self._end()
                raise DrawingEndedError("the process that draws has ended: see the server's log") from error
            except asyncio.CancelledError:
                # The answer is still on its way, and would be taken for that to the next question.
                await self._end()
                raise

    async def forget(self, viewer: str) -> None:
        """Let the process forget a page."""
        async with self._lock:
            if self._process is not None:
                with suppress(OSError):
                    self._send("close", viewer)

    async def close(self) -> None:
        """End the process."""
        async with self._lock:
            await self._end()

    async def _start(self) -> None:
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-m", "serving.live.drawing")
        self._process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
        self._next_step = 0
        self._write(pickle.dumps(self._facts))

    async def _end(self) -> None:
        process, self._process, self._next_step = self._process, None, 0
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(END_SECONDS):
                await process.wait()
        except TimeoutError:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def _send(self, *message: Any) -> None:
        self._write(pickle.dumps(message, pickle.HIGHEST_PROTOCOL))

    def _write(self, frame: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        # asyncio's own loop writes into a closed pipe without a word, uvloop raises an error of its own.
        if self._process.stdin.is_closing():
            raise BrokenPipeError("the process that draws has ended")
        self._process.stdin.write(LENGTH.pack(len(frame)) + frame)

    async def _ask(self, *message: Any) -> bytes:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._send(*message)
        await self._process.stdin.drain()
        head = await self._process.stdout.readexactly(LENGTH.size)
        return await self._process.stdout.readexactly(LENGTH.unpack(head)[0])
