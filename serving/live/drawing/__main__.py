"""The process that draws: frames of pickled messages on standard input, frames of JSON on standard output."""

import json
import os
import pickle
import struct
import sys
from typing import Any, BinaryIO

from serving.live.chunks import Chunk
from serving.live.drawing.changes import Viewer
from serving.live.drawing.live_run import LiveRun
from serving.live.drawing.look import Look
from serving.live.drawing.scene import picture_of

LENGTH = struct.Struct(">I")
LOW_PRIORITY = 10


class Drawing:
    """The run so far, and the pages that look at it."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts = facts
        self.run = LiveRun(facts)
        self.viewers: dict[str, Viewer] = {}

    def feed(self, chunks: list[Chunk]) -> None:
        """Take in what the engine has done since."""
        for chunk in chunks:
            self.run.feed(chunk)

    def draw(self, viewer: str, look: Look) -> bytes:
        """Return what a page lacks for the picture that it wants."""
        picture = picture_of(self.run, look, self.facts)
        state = self.run.state(self.run.newest if look.step is None else look.step)
        assert state.record is not None
        page = self.viewers.setdefault(viewer, Viewer())
        message = page.message(self.run, look, picture, state.record["step"])
        return json.dumps(message, separators=(",", ":")).encode()

    def close(self, viewer: str) -> None:
        """Forget a page."""
        self.viewers.pop(viewer, None)


def read(source: BinaryIO) -> bytes | None:
    """Return the next frame, None at the end."""
    head = source.read(LENGTH.size)
    return source.read(LENGTH.unpack(head)[0]) if len(head) == LENGTH.size else None


def main() -> None:
    """Draw until there is nothing more to read. The engine comes first: it has the higher priority."""
    if hasattr(os, "nice"):
        os.nice(LOW_PRIORITY)
    first = read(sys.stdin.buffer)
    if first is None:
        return
    drawing = Drawing(pickle.loads(first))
    while (frame := read(sys.stdin.buffer)) is not None:
        name, *arguments = pickle.loads(frame)
        answer = getattr(drawing, name)(*arguments)
        if answer is not None:
            sys.stdout.buffer.write(LENGTH.pack(len(answer)) + answer)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
