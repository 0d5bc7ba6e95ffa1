"""Defines widgets that also work in a saved page, and `Player`, which shows a film. These widgets need anywidget."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import uuid4

import anywidget
import traitlets
from IPython.display import display

from mini_vllm_labs.pictures.alone import PLAYER, WITH_LINES, alone
from mini_vllm_labs.pictures.film import Film
from mini_vllm_labs.pictures.picture import Picture, read_asset

# When a trusted notebook is reopened, JupyterLab writes "model not found" instead of the widget. Unlike a widget, this
# output does not contain an element.
NO_MODEL = "<style>.jp-OutputArea-output.jupyter-widgets:not(:has(*)) { display: none; }</style>"


class SavedWidget(anywidget.AnyWidget):
    """A widget with a second output for pages where it cannot run: exported, untrusted or reopened.

    The running widget hides its cell's second output, which has the same `place`.
    """

    place = traitlets.Unicode().tag(sync=True)

    @traitlets.default("place")
    def _new_place(self) -> str:
        return uuid4().hex

    def second_output(self) -> dict[str, Any]:
        raise NotImplementedError

    def _ipython_display_(self) -> None:
        bundle = self._repr_mimebundle_()
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        second = self.second_output()
        second["text/html"] = NO_MODEL + second["text/html"]
        first = {name: content for name, content in data.items() if name not in second} | {"text/plain": ""}
        display(first, metadata=metadata, raw=True)  # type: ignore[no-untyped-call]
        display(second, raw=True)  # type: ignore[no-untyped-call]


class PictureWidget(SavedWidget):
    def picture(self) -> Picture:
        raise NotImplementedError

    def still(self) -> str:
        return self.picture().html()

    def second_output(self) -> dict[str, Any]:
        return self.picture().bundle() | {"text/html": f'<div data-place="{self.place}">{self.still()}</div>'}

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        return {**data, **self.picture().bundle()}, metadata


class Player(PictureWidget):
    """Plays, steps and scrubs through a film; clicking a request or a block follows it.

    `step` is the picture shown, and `follow` is a key such as `request:0`, or empty. A `speed` of 1 leaves time to read
    each sentence: 1.2 s per step of a short film, and at least 0.3 s per step of a long film. `scale` sets the widths
    of a timeline's steps: equal (`steps`) or token-based (`time`). In a saved or exported page, the film plays without
    a kernel.
    """

    _esm = WITH_LINES
    _css = read_asset("controls.css")
    film = traitlets.Dict().tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    follow = traitlets.Unicode("").tag(sync=True)
    speed = traitlets.Float(1.0).tag(sync=True)
    scale = traitlets.Enum(["steps", "time"], "steps").tag(sync=True)

    def __init__(self, film: Film, step: int = 0, speed: float = 1.0, **traits: Any) -> None:
        if speed <= 0:
            raise ValueError(f"speed is {speed}, but it must be greater than 0, such as 0.5, 1, 2 or 4")
        self.pictures = film
        self.pictures[step]  # raises an error for a step outside the film
        super().__init__(film=film.encode(), step=step, speed=speed, **traits)

    def picture(self) -> Picture:
        return replace(self.pictures.still(self.step), scale=self.scale)

    def still(self) -> str:
        state = {name: getattr(self, name) for name in ("film", "step", "follow", "speed", "scale")}
        return self.picture().html() + alone(state | {"place": ""}, WITH_LINES if "lines" in self.film else PLAYER)

    @traitlets.validate("step")
    def _within_film(self, proposal: Mapping[str, Any]) -> int:
        step: int = proposal["value"]
        self.pictures[step]
        return step
