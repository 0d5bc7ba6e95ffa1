"""Marks a recorded run: a band above its picture, paler colours, and a first line in its text."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from html import escape

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.film import Film
from mini_vllm_labs.pictures.picture import Layer, Picture
from mini_vllm_labs.pictures.svg import Markup
from mini_vllm_labs.pictures.typeset import wrap
from mini_vllm_labs.runs.sandbox import IN_BROWSER

BAND = 34
NEED_TORCH = (6, 10)  # PyTorch is not available in a browser
PALE = "filter:saturate(.3);opacity:.9"


def mark_of(phase: int) -> str:
    """Return the line shown above a recorded run when `phase` is the learner's first unwritten phase."""
    place = "in a local installation" if IN_BROWSER and phase in NEED_TORCH else "here"
    return f"Recorded with the reference. Yours appears {place} when phase {phase} is written."


def first_mark(results: Iterable[object]) -> str:
    return next((mark for result in results if (mark := getattr(result, "recorded", ""))), "")


def marked_picture(picture: Picture, mark: str) -> Picture:
    """Return the picture in pale colours below a band with the mark, or unchanged if there is no mark."""
    if not mark:
        return picture
    drawn, high = band(picture.width, mark)
    paler = [replace(layer, y=layer.y + high, content=svg.group(layer.content, style=PALE)) for layer in picture.layers]
    return replace(
        picture,
        title=f"{picture.title} (recorded)",
        height=picture.height + high,
        layers=(Layer("recorded", drawn), *paler),
        text_alternative=f"{mark}\n{picture.text_alternative}",
        narrow=picture.narrow and marked_picture(picture.narrow, mark),
    )


def band(width: float, mark: str) -> tuple[Markup, float]:
    lines = wrap(mark, width - 48, 13, 2)
    high = BAND + 17 * (len(lines) - 1)
    frame = svg.rect(6.5, 4.5, width - 13, high - 9, rx=4, class_="mv-line", stroke_dasharray="5 3")
    words = [svg.text(14, 21.5 + 17 * k, line, class_="mv-strong", font_size=13) for k, line in enumerate(lines)]
    return svg.joined([frame, *words]), high


def marked_film(film: Film, mark: str) -> Film:
    return film.changed(lambda picture: marked_picture(picture, mark)) if mark else film


def marked_html(page: str, mark: str) -> str:
    """Return the HTML in pale colours below the mark, or unchanged if there is no mark."""
    if not mark:
        return page
    frame = "border:1px dashed currentColor;border-radius:4px;padding:2px 8px;margin:0 0 6px;max-width:720px"
    return f'<p style="{frame}"><strong>{escape(mark)}</strong></p><div style="{PALE}">{page}</div>'


def marked_text(text: str, mark: str) -> str:
    return f"{mark}\n{text}" if mark else text


@dataclass(frozen=True)
class Mark:
    """A mark shown above a result that cannot contain one."""

    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        return {"text/html": marked_html("", self.text), "text/plain": self.text}


class CellMarks:
    """Shows a mark above the output of a cell, once per cell."""

    def __init__(self) -> None:
        self._cell = -1

    def show(self, mark: str) -> None:
        from IPython import get_ipython  # only the kernel needs it, and a panel's new process starts faster without it
        from IPython.display import display

        shell = get_ipython()
        cell = shell.execution_count if shell else 0
        if mark and cell != self._cell:
            display(Mark(mark))  # type: ignore[no-untyped-call]
            self._cell = cell
