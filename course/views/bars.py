"""A small chart of bars: one measure of several runs. Three fit beside each other in a wide page."""

from collections.abc import Callable, Mapping

from course.palette import color
from course.views import svg
from course.views.chart import LABEL
from course.views.picture import Layer, Picture
from course.views.typeset import shorten, text_width, wrap

SMALL_WIDTH = 260
TITLE, LINE_HEIGHT, ROW, BAR, MAX_NAME, GAP, MARGIN = 13, 17, 20, 12, 128, 6, 10
MAX_LINES = 2
COLOUR = "#8E7CC3"  # no request has it


def bars(
    title: str,
    values: Mapping[str, float],
    texts: Mapping[str, str],
    *,
    most: float = 0,
    marks: Mapping[str, float] | None = None,
    as_text: Callable[[float], str] = str,
    indices: Mapping[str, int] | None = None,
) -> Picture:
    """Return a bar for each value from 0 on, with its text at the end; a name without a value has the text alone.

    The longest bar is that of the largest value, or of `most`. `marks` are the reference's values, lines across the
    bars, and `as_text` how they are written. `indices` are the requests in whose colours the bars are.
    """
    known = marks or {}
    names = [shorten(name, MAX_NAME, LABEL) for name in texts]
    start = MARGIN + GAP + max((text_width(name, LABEL) for name in names), default=0)
    room = SMALL_WIDTH - start - GAP - MARGIN - max(text_width(text, LABEL, bold=True) for text in texts.values())
    scale = room / (max([most, *values.values(), *known.values()]) or 1)
    titles = wrap(title, SMALL_WIDTH - 2 * MARGIN, TITLE, MAX_LINES, bold=True)
    top, rows = 14 + LINE_HEIGHT * len(titles), []
    for place, (shown, (name, text)) in enumerate(zip(names, texts.items(), strict=True)):
        fill = COLOUR if indices is None else color(indices[name])
        bar = row(shown, values.get(name, 0.0) * scale, text, start, fill, known.get(name, -1) * scale)
        rows.append(svg.group(svg.tooltip(f"{name}: {text}"), bar, transform=f"translate(0,{top + place * ROW})"))
    heading = svg.joined(
        svg.text(MARGIN, 20 + LINE_HEIGHT * n, words, class_="mv-strong", font_size=TITLE)
        for n, words in enumerate(titles)
    )
    references = {name: f", reference {as_text(value)}" for name, value in known.items()}
    sentence = ", ".join(f"{text} ({name}{references.get(name, '')})" for name, text in texts.items())
    layers = (Layer("heading", heading), Layer("bars", svg.joined(rows)))
    return Picture(title, top + ROW * len(rows) + 6, layers, sentence, f"{title}: {sentence}", SMALL_WIDTH)


def in_unit(values: Mapping[str, float], unit: str) -> dict[str, str]:
    """Return whole numbers with their unit."""
    return {name: f"{value:,.0f} {unit}".strip() for name, value in values.items()}


def row(name: str, length: float, text: str, start: float, fill: str, mark: float) -> svg.Markup:
    """Return a name, a bar from `start` on, its text, and a line at `mark` unless that is negative or both are 0."""
    line = svg.line(start + mark, -2, start + mark, BAR + 2, class_="mv-line mv-reference", stroke_width=2)
    return svg.joined(
        [
            svg.text(start - GAP, BAR - 2, name, class_="mv-end"),
            svg.rect(start, 0, length, BAR, fill=fill, rx=1),
            line if mark >= 0 and (mark or length) else svg.Markup(""),
            svg.text(start + max(length, mark) + GAP, BAR - 2, text, class_="mv-strong"),
        ]
    )
