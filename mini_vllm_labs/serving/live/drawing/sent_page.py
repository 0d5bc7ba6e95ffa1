"""Remembers what was sent to an open page, so that later messages contain only changes."""

from dataclasses import replace
from typing import Any

from mini_vllm_labs.pictures.picture import Picture, html
from mini_vllm_labs.pictures.svg import Markup
from mini_vllm_labs.runs.palette import color, ink_on
from mini_vllm_labs.serving.live.drawing.live_run import LiveRun
from mini_vllm_labs.serving.live.drawing.scene import figures_of
from mini_vllm_labs.serving.live.drawing_process import WantedPicture


class SentPage:
    """Remembers the last picture sent to one page, and the requests whose colours the page knows."""

    def __init__(self) -> None:
        self._picture: Picture | None = None
        self._numbers: dict[str, int] = {}

    def message(self, run: LiveRun, look: WantedPicture, picture: Picture, step: int) -> dict[str, Any]:
        """Return the message for a new picture: the whole picture the first time, and later only the changed layers."""
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
        """Return the number, letter and colours of each request new to the page; an empty list marks a removed
        request."""
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
    """Return a picture's size and positions; layers can be replaced only between pictures that share them."""
    return picture.width, picture.height, [(layer.name, layer.x, layer.y) for layer in picture.layers]
