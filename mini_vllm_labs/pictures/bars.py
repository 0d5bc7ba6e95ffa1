"""Draws a small bar chart of one measure across several runs. Three charts fit side by side on a wide page."""

import math
import re
from collections.abc import Callable, Collection, Mapping

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.chart import LABEL, LogScale, x_axis
from mini_vllm_labs.pictures.picture import Layer, Picture
from mini_vllm_labs.pictures.typeset import shorten, text_width, wrap
from mini_vllm_labs.runs.palette import color

SMALL_WIDTH = 260
TITLE, LINE_HEIGHT, ROW, BAR, MAX_NAME, GAP, MARGIN = 13, 17, 20, 12, 128, 6, 10
MAX_LINES = 2
# limits how short a bar may be on a linear axis: at 31, the shortest bar is only as long as a letter is wide
MAX_RATIO = 30
AXIS_HEIGHT = 18
SHARE = (0.0, 1.0)  # the axis of a share
COLOUR = "#8E7CC3"  # not the colour of any request


def bars(
    title: str,
    values: Mapping[str, float],
    texts: Mapping[str, str],
    *,
    others: Collection[float] = (),
    marks: Mapping[str, float] | None = None,
    as_text: Callable[[float], str] = "{:g}".format,
    indices: Mapping[str, int] | None = None,
) -> Picture:
    """Draw a bar with its text for each value; a name without a value gets only the text.

    `marks` are the reference's values, drawn as lines across the bars and formatted by `as_text`. The axis also covers
    `others`. The axis begins at 0, or is logarithmic if the largest value is over `MAX_RATIO` times the smallest and
    `others` does not contain 0. `indices` are the requests that determine the bars' colours.
    """
    known = marks or {}
    names = [shorten(name, MAX_NAME, LABEL) for name in texts]
    start = MARGIN + GAP + max((text_width(name, LABEL) for name in names), default=0)
    room = SMALL_WIDTH - start - GAP - MARGIN - max(text_width(text, LABEL, bold=True) for text in texts.values())
    on_axis = [*others, *values.values(), *known.values()]
    scale = None if 0 in others else log_scale(on_axis, start, room)
    place = scale or (lambda value: start + room * value / (max(on_axis, default=0) or 1))
    titles = wrap(f"{title}, log axis" if scale else title, SMALL_WIDTH - 2 * MARGIN, TITLE, MAX_LINES, bold=True)
    top, rows = 14 + LINE_HEIGHT * len(titles), []
    for number, (shown, (name, text)) in enumerate(zip(names, texts.items(), strict=True)):
        fill = COLOUR if indices is None else color(indices[name])
        length, mark = place(values.get(name, 0.0)) - start, place(known[name]) - start if name in known else -1
        bar = row(shown, length, text, start, fill, mark)
        rows.append(svg.group(svg.tooltip(f"{name}: {text}"), bar, transform=f"translate(0,{top + number * ROW})"))
    bottom = top + ROW * len(rows)
    heading = svg.joined(
        svg.text(MARGIN, 20 + LINE_HEIGHT * n, words, class_="mv-strong", font_size=TITLE)
        for n, words in enumerate(titles)
    )
    references = {name: f", reference {as_text(value)}" for name, value in known.items()}
    sentence = ", ".join(f"{text} ({name}{references.get(name, '')})" for name, text in texts.items())
    axis = x_axis(scale, top - 2, bottom, lambda value: without_decimals(as_text(value))) if scale else svg.Markup("")
    layers = (Layer("heading", heading), Layer("axis", axis), Layer("bars", svg.joined(rows)))
    height = bottom + 6 + (AXIS_HEIGHT if scale else 0)
    return Picture(title, height, layers, sentence, f"{title}: {sentence}", SMALL_WIDTH)


def log_scale(values: Collection[float], start: float, room: float) -> LogScale | None:
    """Return a logarithmic scale that begins below the smallest positive value, or None if a linear scale suffices.

    The largest value is `room` px from `start`. The scale continues under the texts, so that two labels fit below it.
    """
    known = [value for value in values if value > 0]
    if max(known, default=0) <= MAX_RATIO * min(known, default=0):
        return None
    low = min(10.0 ** math.floor(math.log10(min(known))), 0.8 * min(known))
    end = SMALL_WIDTH - MARGIN
    return LogScale(low, low * (max(known) / low) ** ((end - start) / room), start, end)


def without_decimals(text: str) -> str:
    """Drop a decimal part of zero from text: 10.0 ms becomes 10 ms."""
    return re.sub(r"\.0+(?!\d)", "", text)


def in_unit(values: Mapping[str, float], unit: str) -> dict[str, str]:
    """Format values as whole numbers with a unit."""
    return {name: f"{value:,.0f} {unit}".strip() for name, value in values.items()}


def row(name: str, length: float, text: str, start: float, fill: str, mark: float) -> svg.Markup:
    """Draw a name, a bar with its text, and a line at `mark`.

    A negative mark, or a mark of 0 on an empty bar, gets no line.
    """
    line = svg.line(start + mark, -2, start + mark, BAR + 2, class_="mv-line mv-reference", stroke_width=2)
    return svg.joined(
        [
            svg.text(start - GAP, BAR - 2, name, class_="mv-end"),
            svg.rect(start, 0, length, BAR, fill=fill, rx=1),
            line if mark >= 0 and (mark or length) else svg.Markup(""),
            svg.text(start + max(length, mark) + GAP, BAR - 2, text, class_="mv-strong mv-cased"),
        ]
    )
