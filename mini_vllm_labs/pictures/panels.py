"""Builds panels: knobs above a picture drawn by Python or by the page, or above a film."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import traitlets

from mini_vllm_labs.pictures.alone import PLAYER, alone
from mini_vllm_labs.pictures.film import Film
from mini_vllm_labs.pictures.knobs import Knob, checked
from mini_vllm_labs.pictures.parts import WIDTHS
from mini_vllm_labs.pictures.picture import WIDTH, Picture, read_asset
from mini_vllm_labs.pictures.widgets import PictureWidget, Player

Comparison = Sequence[tuple[str, str, str]]  # a setting's effects, as (name, figure at the start, figure now)


class Filmed(Protocol):
    """A run to be shown in a `FilmPanel`. `comparison` and `sentence` describe the whole run rather than a step."""

    @property
    def num_steps(self) -> int: ...
    @property
    def comparison(self) -> Comparison: ...
    @property
    def sentence(self) -> str: ...
    def picture(self, step: int, width: float = WIDTH) -> Picture: ...
    def film(self) -> Film: ...


NEEDS_KERNEL = "The knobs of this picture ask Python: they turn in the running notebook."

BrowserDrawing = tuple[str, Mapping[str, Any]]
"""The same picture drawn by the page: a JavaScript module with `draw(question, tables)`, and its tables."""


class Panel(PictureWidget):
    """Knobs above a picture drawn by Python: `draw` receives the knobs' values by name and returns a `Picture`.

    `draw` is called while a knob is being moved. While `draw` runs, newer calls replace older ones, so that the next
    answer is for the latest call. If `draw` raises `ValueError`, the message is shown and the picture does not change.
    With `reflows`, `draw` also receives the picture's `width` in px on the page and, as `before`, the values before the
    knob was turned. With `in_browser`, the page draws, and Python receives a knob's value only when the knob is
    released.
    """

    _esm = read_asset("controls.js") + read_asset("panel.js")
    _css = read_asset("controls.css")
    knobs: traitlets.List[dict[str, Any]] = traitlets.List().tag(sync=True)
    question = traitlets.Dict().tag(sync=True)
    answer = traitlets.Dict().tag(sync=True)
    reflows = traitlets.Bool(False).tag(sync=True)
    source = traitlets.Unicode("").tag(sync=True)
    tables = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        knobs: Sequence[Knob],
        draw: Callable[..., Picture],
        *,
        reflows: bool = False,
        in_browser: BrowserDrawing | None = None,
        **traits: Any,
    ) -> None:
        self.draw, self.known = draw, {knob.name: knob for knob in knobs}
        values = {knob.name: knob.value for knob in knobs}
        self._picture = draw(**values)
        if in_browser is not None:
            traits |= {"source": in_browser[0], "tables": dict(in_browser[1])}
        super().__init__(
            knobs=[knob.as_json() for knob in knobs],
            question={"ticket": 0, "values": values, "before": None, "width": WIDTH},
            answer=as_answer(0, self._picture),
            reflows=reflows,
            **traits,
        )
        self.observe(self._on_question, names="question")

    @property
    def values(self) -> dict[str, Any]:
        return dict(self.question["values"])

    def set(self, **values: Any) -> None:
        """Set knobs from Python. Raises `ValueError` for an unknown knob or a value outside its range."""
        now = self.question
        chosen = self.values | checked(self.known, values)
        self.question = now | {"ticket": now["ticket"] + 1, "values": chosen, "before": self.values, "whole": True}

    def picture(self) -> Picture:
        return self._picture

    def still(self) -> str:
        """Return HTML for a page without a kernel: working knobs if the page draws, otherwise a note about them."""
        if not self.source:
            return f"{super().still()}<p>{NEEDS_KERNEL}</p>"
        names = ("knobs", "question", "answer", "reflows", "source", "tables")
        state = {name: getattr(self, name) for name in names} | {"place": "", "player": ""}
        return self.picture().html() + alone(state, self._esm)

    def _on_question(self, change: Mapping[str, Any]) -> None:
        question = change["new"]
        try:
            self.answer = self._answer(question, checked(self.known, question["values"]))
        except ValueError as error:
            self.answer = {"ticket": question["ticket"], "error": str(error)}

    def _answer(self, question: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        more = {"width": question["width"], "before": question["before"]} if self.reflows else {}
        self._picture = self.draw(**values, **more)
        return as_answer(question["ticket"], self._picture)


class FilmPanel(Panel, Player):
    """Knobs above a player: `run` receives the knobs' values by name and returns a `Filmed` run.

    While a knob is moving, only the displayed step is redrawn; the film is updated when the knob stops.
    """

    player = traitlets.Unicode(PLAYER).tag(sync=True)

    def __init__(self, knobs: Sequence[Knob], run: Callable[..., Filmed], step: int = 0) -> None:
        self.run = run
        self.shown = first = run(**{knob.name: knob.value for knob in knobs})
        super().__init__(knobs, lambda **_: first.picture(step), film=first.film(), step=step)
        self.answer = self.answer | about(first)  # a new dict, because traitlets does not notice changes inside a dict

    def picture(self) -> Picture:
        """Return the picture of the shown step, whose text states the effects of the settings."""
        step = min(self.step, self.shown.num_steps - 1)
        picture = replace(self.shown.picture(step), narrow=self.shown.picture(step, WIDTHS[0]))
        words = ", ".join(f"{name} {now} (first {was})" for name, was, now in self.shown.comparison)
        text = f"{picture.text_alternative}\n{words}. {self.shown.sentence}"
        return replace(picture, text_alternative=text, scale=self.scale)

    def _answer(self, question: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
        self.shown = run = self.run(**values)
        if not question.get("whole"):
            picture = replace(run.picture(min(self.step, run.num_steps - 1), question["width"]), scale=self.scale)
            return as_answer(question["ticket"], replace(picture, legend={})) | about(run) | {"has_more": True}
        self.pictures = run.film()
        with self.hold_sync():  # sent as a single message, so that the page never has a step without its picture
            self.step = min(self.step, run.num_steps - 1)
            self.film = self.pictures.encode()
        return {"ticket": question["ticket"], "text_alternative": "", **about(run)}


def about(run: Filmed) -> dict[str, Any]:
    return {"comparison": [list(row) for row in run.comparison], "sentence": run.sentence}


def as_answer(ticket: int, picture: Picture) -> dict[str, Any]:
    """Encode a picture for the panel's front end."""
    return {
        "ticket": ticket,
        "svg": str(picture.svg()),
        "sentence": picture.sentence,
        "text_alternative": picture.text_alternative,
        "width": picture.width,
    }
