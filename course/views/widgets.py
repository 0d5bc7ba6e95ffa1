"""The two widgets: `Player` shows a film, `Panel` gets its pictures from Python. Only this module needs anywidget."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import uuid4

import anywidget
import traitlets
from IPython.display import display

from course.views.alone import PLAYER, alone
from course.views.film import Film
from course.views.knobs import Knob, checked
from course.views.picture import Picture, read_asset


class PictureWidget(anywidget.AnyWidget):
    """A widget that is a picture wherever it cannot run: exported, untrusted, or saved and reopened.

    A cell has two outputs: the widget, and the picture, which the running widget hides. A front end that cannot
    restore the widget of a saved cell shows the picture alone. `place` identifies the picture.
    """

    place = traitlets.Unicode().tag(sync=True)

    @traitlets.default("place")
    def _new_place(self) -> str:
        return uuid4().hex

    def picture(self) -> Picture:
        """Return the picture to show in place of the widget."""
        raise NotImplementedError

    def still(self) -> str:
        """Return the HTML to show in place of the widget."""
        return self.picture().html()

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        return {**data, **self.picture().bundle()}, metadata

    def _ipython_display_(self) -> None:
        """Show the widget and its picture as two outputs of the cell."""
        data, metadata = self._repr_mimebundle_()
        formats = self.picture().bundle()
        widget = {name: content for name, content in data.items() if name not in formats} | {"text/plain": ""}
        picture = formats | {"text/html": f'<div data-place="{self.place}">{self.still()}</div>'}
        display(widget, metadata=metadata, raw=True)  # type: ignore[no-untyped-call]
        display(picture, raw=True)  # type: ignore[no-untyped-call]


class Player(PictureWidget):
    """Play, step and scrub through a film; click a request or a block to follow it.

    `step` is the picture shown, `follow` a key such as `request:0` or empty. At `speed` 1 the sentence of each step
    can be read: 1.2 s per step of a short film, at least 0.3 s of a long one. In a saved or exported page the film
    plays without a kernel.
    """

    _esm = PLAYER
    _css = read_asset("controls.css")
    film = traitlets.Dict().tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    follow = traitlets.Unicode("").tag(sync=True)
    speed = traitlets.Float(1.0).tag(sync=True)

    def __init__(self, film: Film, step: int = 0, speed: float = 1.0) -> None:
        if speed <= 0:
            raise ValueError(f"speed is {speed}, but it must be more than 0: 0.5, 1, 2 or 4, for example")
        self.pictures = film
        self.pictures[step]
        super().__init__(film=film.encode(), step=step, speed=speed)

    def picture(self) -> Picture:
        return self.pictures[self.step]

    def still(self) -> str:
        state = {"film": self.film, "step": self.step, "follow": self.follow, "speed": self.speed, "place": ""}
        return self.picture().html() + alone(state)

    @traitlets.validate("step")
    def _within_film(self, proposal: Mapping[str, Any]) -> int:
        step: int = proposal["value"]
        self.pictures[step]
        return step


class Panel(PictureWidget):
    """Knobs over a picture that Python draws: `draw` gets the knobs' values by name and returns a `Picture`.

    It is called when a knob is released. While it runs, a newer question replaces an older one, so that the next
    answer is to the last question. The text of a `ValueError` is shown and the picture stays.
    """

    _esm = read_asset("panel.js")
    _css = read_asset("controls.css")
    knobs: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    question = traitlets.Dict().tag(sync=True)
    answer = traitlets.Dict().tag(sync=True)

    def __init__(self, knobs: Sequence[Knob], draw: Callable[..., Picture]) -> None:
        self.draw, self.known = draw, {knob.name: knob for knob in knobs}
        values = {knob.name: knob.value for knob in knobs}
        self._picture = draw(**values)
        super().__init__(
            knobs=[knob.as_json() for knob in knobs],
            question={"ticket": 0, "values": values},
            answer=as_answer(0, self._picture),
        )
        self.observe(self._on_question, names="question")

    @property
    def values(self) -> dict[str, Any]:
        """The knobs' values, by name."""
        return dict(self.question["values"])

    def set(self, **values: Any) -> None:
        """Set knobs from Python. Raises `ValueError` for an unknown knob or a value outside its range."""
        self.question = {"ticket": self.question["ticket"] + 1, "values": self.values | checked(self.known, values)}

    def picture(self) -> Picture:
        return self._picture

    def _on_question(self, change: Mapping[str, Any]) -> None:
        ticket, values = change["new"]["ticket"], change["new"]["values"]
        try:
            self._picture = self.draw(**checked(self.known, values))
        except ValueError as error:
            self.answer = {"ticket": ticket, "error": str(error)}
        else:
            self.answer = as_answer(ticket, self._picture)


def as_answer(ticket: int, picture: Picture) -> dict[str, Any]:
    """Return a picture as the panel's front end expects it."""
    return {
        "ticket": ticket,
        "svg": str(picture.svg()),
        "sentence": picture.sentence,
        "text_alternative": picture.text_alternative,
    }
