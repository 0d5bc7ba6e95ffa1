"""What changes from one picture of a page to the next."""

from dataclasses import dataclass, replace
from typing import Any

from course.palette import color, ink_on
from course.views.legend import html
from course.views.picture import Picture
from course.views.svg import Markup
from serving.live.drawing.live_run import LiveRun
from serving.live.drawing.scene import figures_of
from serving.live.drawing_process import Look


@dataclass(frozen=True)
class Layers:
    """The layers of a picture as a page has them; two of one shape have the same layers in the same places."""

    shape: tuple[object, ...]
    content: dict[str, str]
    data: dict[str, dict[str, str]]

    @classmethod
    def of(cls, picture: Picture) -> "Layers":
        shape = picture.width, picture.height, [(layer.name, layer.x, layer.y) for layer in picture.layers]
        content = {layer.name: layer.content for layer in picture.layers}
        return cls(shape, dict(content), {layer.name: dict(layer.data) for layer in picture.layers})


class Viewer:
    """A page: what it has been sent."""

    def __init__(self) -> None:
        self._layers: Layers | None = None
        self._names: dict[str, int] = {}

    def message(self, run: LiveRun, look: Look, picture: Picture, step: int) -> dict[str, Any]:
        """Return what the page lacks for a picture: everything at first, then the layers that have changed."""
        now, before = Layers.of(picture), self._layers
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
        if before is None or before.shape != now.shape:
            message |= {"svg": bare(picture), "legend": html(picture.legend), "layers": now.content}
        else:
            message["layers"] = {name: text for name, text in now.content.items() if before.content[name] != text}
            message["data"] = {name: data for name, data in now.data.items() if before.data[name] != data}
        self._layers = now
        return message

    def _new_names(self, run: LiveRun, recent: set[str]) -> dict[str, list[object]]:
        """Return number, letter and colours of requests that the page does not know; nothing of those that went."""
        numbers = {name: run.info.index(name) for name in recent}
        new: dict[str, list[object]] = {
            name: [number, run.info.label(name), color(number), ink_on(number)]
            for name, number in numbers.items()
            if self._names.get(name) != number
        }
        gone: dict[str, list[object]] = {name: [] for name in self._names.keys() - numbers.keys()}
        self._names = numbers
        return new | gone


def bare(picture: Picture) -> str:
    """Return a picture with its layers empty."""
    layers = tuple(replace(layer, content=Markup("")) for layer in picture.layers)
    return replace(picture, layers=layers).svg(with_legend=False)
