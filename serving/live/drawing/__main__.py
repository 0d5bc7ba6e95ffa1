"""The process that draws: pickled messages on standard input, pickled bytes of JSON on standard output."""

import json
import os
import pickle
import signal
import sys
from typing import Any

from serving.live.drawing.changes import Viewer
from serving.live.drawing.live_run import LiveRun
from serving.live.drawing.scene import picture_of
from serving.live.drawing_process import Look
from serving.live.packed_steps import Chunk

LOW_PRIORITY = 10


class Drawing:
    """The run so far, and the pages that look at it."""

    def __init__(self, facts: dict[str, Any]) -> None:
        self.facts = facts
        self.run = LiveRun(facts)
        self.viewers: dict[str, Viewer] = {}

    def draw(self, viewer: str, look: Look, chunks: list[Chunk]) -> bytes:
        """Take in what the engine has done since, and return what a page lacks for the picture that it wants."""
        for chunk in chunks:
            self.run.feed(chunk)
        picture = picture_of(self.run, look, self.facts)
        state = self.run.state(self.run.newest if look.step is None else look.step)
        assert state.record is not None
        page = self.viewers.setdefault(viewer, Viewer())
        message = page.message(self.run, look, picture, state.record["step"])
        return json.dumps(message, separators=(",", ":")).encode()

    def close(self, viewer: str) -> None:
        """Forget a page."""
        self.viewers.pop(viewer, None)


def main() -> None:
    """Draw until there is nothing more to read. The engine comes first: it has the higher priority."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server's to handle: it ends this process
    if hasattr(os, "nice"):
        os.nice(LOW_PRIORITY)
    _, facts = pickle.load(sys.stdin.buffer)
    drawing = Drawing(facts)
    while True:
        try:
            name, *arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        if name == "close":
            drawing.close(*arguments)
        else:
            pickle.dump(drawing.draw(*arguments), sys.stdout.buffer)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
