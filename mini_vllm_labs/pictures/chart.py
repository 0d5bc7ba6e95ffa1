"""Draws the parts of a chart: scales, axes, curves, labelled points, and the text above and below them."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.picture import Layer
from mini_vllm_labs.pictures.typeset import text_width, wrap

Point = tuple[float, float]
LABEL, TITLE = 12, 15
TICK_GAP = 6
SHORT = 150  # a scale whose ends differ by at most this factor has extra ticks between the powers of ten
NEARLY = 1e-9  # a tolerance, because powers of ten below 1 cannot be represented exactly
MARGIN, LINE_HEIGHT, MAX_LINES = 10, 16, 6


def round_values(direction: int, near: float) -> list[float]:
    """Return 1, 2 and 5 times two adjacent powers of ten, starting with the one at or below `near`."""
    power = math.floor(math.log10(near))
    return [step * 10.0**k for k in (power, power + direction) for step in (1, 2, 5)]


@dataclass(frozen=True)
class LogScale:
    """Maps values from `low` to `high` to positions from `start` to `end` (px) on a logarithmic scale."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def around(cls, values: Iterable[float], start: float, end: float) -> "LogScale":
        """Return a scale for positive values whose ends are 1, 2 or 5 times a power of ten."""
        known = list(values)
        low = max(value for value in round_values(-1, min(known)) if value <= min(known))
        # Strictly greater than the largest value, because a scale cannot have zero length.
        return cls(low, min(value for value in round_values(1, max(known)) if value > max(known)), start, end)

    def __call__(self, value: float) -> float:
        """Return the position of a value; a value outside the scale is placed at the nearer end."""
        share = math.log10(min(max(value, self.low), self.high) / self.low) / math.log10(self.high / self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Return the powers of ten on the scale; on a short scale, also return 2 and 5 times those."""
        steps = (1, 2, 5) if self.high <= SHORT * self.low else (1,)
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        ticks = [step * 10.0**k for k in range(first, last + 1) for step in steps]
        return [tick for tick in ticks if self.low * (1 - NEARLY) <= tick <= self.high * (1 + NEARLY)]


@dataclass(frozen=True)
class PercentScale:
    """A scale for percentiles from `start` to `end` px; 90 to 99 is as long as 0 to 90. The scale ends at `most`."""

    start: float
    end: float
    most: float = 99.5  # 100 would be infinitely far away

    def __call__(self, percent: float) -> float:
        share = math.log(1 - min(percent, self.most) / 100) / math.log(1 - self.most / 100)
        return self.start + share * (self.end - self.start)


@dataclass(frozen=True)
class ChartFrame:
    left: float
    right: float
    top: float
    bottom: float


def x_axis(scale: LogScale, top: float, bottom: float, as_text: Callable[[float], str]) -> svg.Markup:
    """Draw vertical rules at the ticks, with as many labels below as fit before the end of the scale."""
    parts, taken = [], -math.inf
    for value in scale.ticks():
        x, half = scale(value), text_width(as_text(value), LABEL) / 2
        parts.append(svg.line(x, top, x, bottom, class_="mv-rule", stroke_opacity=0.6))
        middle = min(x, scale.end - half)
        if middle - half > taken:
            parts.append(svg.text(middle, bottom + 14, as_text(value), class_="mv-faint mv-middle"))
            taken = middle + half + TICK_GAP
    parts.append(svg.line(scale.start, bottom, scale.end, bottom, class_="mv-rule"))
    return svg.joined(parts)


def y_axis(places: Iterable[tuple[float, str]], left: float, right: float) -> svg.Markup:
    """Draw horizontal rules at the (y, label) positions, labelled on the left."""
    return svg.joined(
        svg.group(
            svg.line(left, y, right, y, class_="mv-rule", stroke_opacity=0.6),
            svg.text(left - TICK_GAP, y + 4, label, class_="mv-faint mv-end"),
        )
        for y, label in places
    )


def curve(points: Sequence[Point], **attributes: svg.Value) -> svg.Markup:
    data = "L".join(f"{svg.number(x)} {svg.number(y)}" for x, y in points)
    return svg.path(f"M{data}", **{"fill": "none", **attributes})


def cloud(points: Iterable[Point], radius: float, **attributes: svg.Value) -> svg.Markup:
    # A zero-length line with round ends is a dot, and a single path can contain thousands of them.
    data = "".join(f"M{svg.number(x)} {svg.number(y)}h0" for x, y in points)
    drawn: dict[str, svg.Value] = {"fill": "none", "stroke_width": 2 * radius, "stroke_linecap": "round"}
    return svg.path(data, **drawn, **attributes) if data else svg.Markup("")


def dot(point: Point, color: str, radius: float = 4) -> svg.Markup:
    """Draw one point, with a rim that separates it from the curve below."""
    x, y = point
    return svg.element("circle", cx=x, cy=y, r=radius, fill=color, class_="mv-cased")


def beside(point: Point, other: float, content: str, left: float, right: float) -> svg.Markup:
    """Draw text at a point on a rising curve without touching it or a second curve at x = `other`.

    The areas to the lower right and upper left of both curves are free. The text goes to the side nearer to the point
    if it fits between `left` and `right`.
    """
    x, y = point
    width = text_width(content, LABEL, bold=True)
    below, above = max(x, other) + 7, min(x, other) - 6
    look = "mv-strong mv-cased"
    has_room = below + width <= right
    if has_room and (x >= other or above - width < left):
        return svg.text(below, y + 14, content, class_=look)
    return svg.text(max(above, left + width), y - 8, content, class_=f"{look} mv-end")


def paragraph(x: float, y: float, lines: Sequence[str], **attributes: svg.Value) -> svg.Markup:
    return svg.joined(svg.text(x, y + LINE_HEIGHT * n, content, **attributes) for n, content in enumerate(lines))


def head(title: str, lines: Iterable[str], width: float) -> tuple[svg.Markup, float]:
    """Draw a title and faint lines, wrapped to the width; also return the y position below them."""
    titles = wrap(title, width - 2 * MARGIN, TITLE, MAX_LINES, bold=True)
    faint = [part for line in lines for part in wrap(line, width - 2 * MARGIN, LABEL, MAX_LINES)]
    below = 22 + LINE_HEIGHT * len(titles)
    drawn = [paragraph(MARGIN, 22, titles, class_="mv-title"), paragraph(MARGIN, below + 2, faint, class_="mv-faint")]
    return svg.joined(drawn), below + LINE_HEIGHT * len(faint)


def foot(sentence: str, y: float, width: float, look: str = "") -> tuple[Layer, float]:
    """Draw the last lines of a picture as a layer; also return the picture's height."""
    lines = wrap(sentence, width - 2 * MARGIN, LABEL, MAX_LINES)
    return Layer("sentence", paragraph(MARGIN, y, lines, class_=look or None)), y + LINE_HEIGHT * len(lines)
