"""The process that draws: pickled messages on standard input, pickled bytes of JSON on standard output."""

import json
import os
import pickle
import signal
import sys
from dataclasses import replace
from typing import Any

from course.palette import color, ink_on
from course.views.picture import Picture, html
from course.views.svg import Markup
from serving.live.drawing.live_run import LiveRun
from serving.live.drawing.scene import figures_of, picture_of
from serving.live.drawing_process import Look
from serving.live.packed_steps import Chunk

LOW_PRIORITY = 10


class SentPage:
    """What one page has been sent: its last picture, and the requests whose colours it knows."""

    def __init__(self) -> None:
        self._picture: Picture | None = None
        self._numbers: dict[str, int] = {}

    def message(self, run: LiveRun, look: Look, picture: Picture, step: int) -> dict[str, Any]:
        """Return what the page lacks for a picture: all of it at first, later only the layers that have changed."""
        before, self._picture = self._picture, picture
        message: dict[str, Any] = {
            "newest": run.newest,
            "oldest": run.oldest,
            "is_newest": look.step is None,
            "title": picture.title,
            "sentence": picture.sentence,
            "text": picture.text_alternative,
            "figures": figures_of(run, run.state(step)),
            "requests": self._new_names(run, run.recent(step)),
        }
        if before is None or places_of(before) != places_of(picture):
            empty = replace(picture, layers=tuple(replace(layer, content=Markup("")) for layer in picture.layers))
            layers = {layer.name: layer.content for layer in picture.layers}
            return message | {"svg": empty.svg(with_legend=False), "legend": html(picture.legend), "layers": layers}
        pairs = list(zip(picture.layers, before.layers, strict=True))
        message["layers"] = {now.name: now.content for now, was in pairs if now.content != was.content}
        message["data"] = {now.name: dict(now.data) for now, was in pairs if now.data != was.data}
        return message

    def _new_names(self, run: LiveRun, recent: set[str]) -> dict[str, list[object]]:
        """Return number, letter and colours of requests new to the page, and nothing for those that have gone."""
        numbers = {name: run.info.index(name) for name in recent}
        new: dict[str, list[object]] = {
            name: [number, run.info.label(name), color(number), ink_on(number)]
            for name, number in numbers.items()
            if self._numbers.get(name) != number
        }
        gone: dict[str, list[object]] = {name: [] for name in self._numbers.keys() - numbers.keys()}
        self._numbers = numbers
        return new | gone


def places_of(picture: Picture) -> tuple[object, ...]:
    """Return what two pictures must share so that one can replace the layers of the other."""
    return picture.width, picture.height, [(layer.name, layer.x, layer.y) for layer in picture.layers]


def main() -> None:
    """Draw until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the server's to handle: it ends this process
    if hasattr(os, "nice"):  # Windows has none
        os.nice(LOW_PRIORITY)  # the engine comes first
    _, facts = pickle.load(sys.stdin.buffer)
    run, pages = LiveRun(facts), dict[str, SentPage]()

    def draw(viewer: str, look: Look, chunks: list[Chunk]) -> bytes:
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
