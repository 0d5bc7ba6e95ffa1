"""Runs the drawing process, which reads pickled messages from stdin and writes pickled bytes of JSON to stdout."""

import json
import os
import pickle
import signal
import sys

from mini_vllm_labs.serving.live.drawing.live_run import LiveRun
from mini_vllm_labs.serving.live.drawing.scene import picture_of
from mini_vllm_labs.serving.live.drawing.sent_page import SentPage
from mini_vllm_labs.serving.live.drawing_process import WantedPicture
from mini_vllm_labs.serving.live.packed_steps import Chunk

LOW_PRIORITY = 10


def main() -> None:
    """Draw pictures until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server handles Ctrl-C and stops this process
    if hasattr(os, "nice"):  # not available on Windows
        os.nice(LOW_PRIORITY)  # so that the engine gets the CPU first
    _, facts = pickle.load(sys.stdin.buffer)
    run, pages = LiveRun(facts), dict[str, SentPage]()

    def draw(viewer: str, look: WantedPicture, chunks: list[Chunk]) -> bytes:
        for chunk in chunks:
            run.feed(chunk)
        picture = picture_of(run, look, facts)
        record = run.state(run.newest if look.step is None else look.step).record
        assert record is not None
        message = pages.setdefault(viewer, SentPage()).message(run, look, picture, record["step"])
        return json.dumps(message, separators=(",", ":")).encode()

    while True:
        try:
            name, *arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        if name == "close":
            pages.pop(arguments[0], None)
        else:
            pickle.dump(draw(*arguments), sys.stdout.buffer)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
