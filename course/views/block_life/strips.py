"""One line per block through all steps: who held it, when it was shared, kept, and when it was forgotten."""

from collections.abc import Sequence

from course.palette import color
from course.traces.run_state import RunInfo
from course.views import svg
from course.views.block_life.lives import Life, Span
from course.views.picture import Layer
from course.views.svg import Markup
from course.views.tiles import tile
from course.views.time_machine.parts import LEFT, SPAN, Part, heading

MOST_STEP_WIDTH = 22
MOST_BANDS = 4
AXIS = 16
LEAST_HIGH = 34
INTERVALS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**9)


class Strips:
    """The lines of some blocks: drawn once, because only the cursor and what is said about a block change."""

    def __init__(self, info: RunInfo, lives: Sequence[Life], num_steps: int) -> None:
        self.info, self.lives, self.num_steps = info, lives, num_steps
        self.step_width = min(MOST_STEP_WIDTH, SPAN / num_steps)
        self.row = 26 if len(lives) <= 4 else 18 if len(lives) <= 12 else 14
        self.height = max(LEAST_HIGH, self.row * len(lives))
        self.rows = svg.joined([self._row(place, life) for place, life in enumerate(lives)])

    def part(self, step: int) -> Part:
        """Return the lines with the cursor on `step`."""
        high, width = self.height, self.step_width
        cursor = svg.rect(step * width - 1, -2, width + 2, high + 4, rx=2, class_="mv-changed")
        hidden = self.info.num_blocks - len(self.lives)
        caption = f"{len(self.lives)} of {self.info.num_blocks}" if hidden else "of blocks"
        layers = [
            heading("lives", "lives", 12, caption),
            *[self._head(place, life, step) for place, life in enumerate(self.lives)],
            Layer("life-rows", self.rows, LEFT),
            Layer("life-axis", self._axis(), LEFT, high + 2),
            Layer("life-cursor", cursor, LEFT),
            Layer("life-columns", self._columns(high), LEFT),
            heading("axis", "step", high + 13),
            Layer("life-legend", legend(), LEFT, high + AXIS + 8),
        ]
        return Part(layers, high + AXIS + 30)

    def _head(self, place: int, life: Life, step: int) -> Layer:
        drawn = svg.group(
            svg.tooltip(f"block {life.block}: {life.words(self.info, step)}"),
            svg.text(LEFT - 8, self.row / 2 + 4, str(life.block), class_="mv-end mv-small"),
            class_="mv-link",
        )
        data = {"block": str(life.block), "about": f"block:{life.block}"}
        return Layer(f"life-{life.block}", drawn, 0, place * self.row, data)

    def _row(self, place: int, life: Life) -> Markup:
        middle, end = self.row / 2, self.num_steps * self.step_width
        parts = [svg.line(0, middle, end, middle, class_="mv-rule")]
        parts += [self._span(span) for span in life.spans if span.holders or span.owner]
        for step in life.forgotten:
            x = step * self.step_width
            parts.append(svg.path(f"M{x:.1f} 1h6l-6 6z", class_="mv-alert mv-lost"))
        move = f"translate(0,{place * self.row})"
        return svg.group(*parts, transform=move, data_block=str(life.block), class_="mv-link")

    def _span(self, span: Span) -> Markup:
        x, width, high = span.first * self.step_width, (span.last - span.first + 1) * self.step_width, self.row - 4
        names = " ".join(str(self.info.index(who)) for who in span.holders or [span.owner] if who is not None)
        if not span.holders:
            style = f"stroke:{color(int(names))};stroke-width:2"
            kept = svg.rect(x + 1, 4, width - 2, high - 4, class_="mv-paper", style=style, stroke_dasharray="3 2")
            return svg.group(kept, data_state="kept", data_request=names)
        holders = list(map(self.info.index, span.holders))[:MOST_BANDS]
        if len(holders) == 1:
            label = self.info.label(span.holders[0])
            held = tile(holders[0], label, x, 2, width - 0.5, high, size=10)
            return svg.group(held, data_state="held", data_request=names)
        band = high / len(holders)
        bands = [svg.rect(x, 2 + k * band, width - 0.5, band, fill=color(index)) for k, index in enumerate(holders)]
        edge = svg.rect(x + 0.75, 2.75, width - 2, high - 1.5, class_="mv-line", stroke_width=1.5)
        return svg.group(*bands, edge, data_state="shared", data_request=names)

    def _axis(self) -> Markup:
        every = next(k for k in INTERVALS if k * self.step_width >= 28)
        return svg.joined(
            svg.text((step + 0.5) * self.step_width, 12, str(step), class_="mv-middle mv-small mv-faint")
            for step in range(0, self.num_steps, every)
        )

    def _columns(self, high: float) -> Markup:
        columns = [
            svg.rect(step * self.step_width, high, self.step_width, AXIS, data_go_to=str(step))
            for step in range(self.num_steps)
        ]
        return svg.group(*columns, fill="transparent", class_="mv-link")


def legend() -> Markup:
    """Return what the marks mean."""
    bands = [svg.rect(0, 0, 14, 5, fill=color(0)), svg.rect(0, 5, 14, 5, fill=color(1))]
    kept = svg.rect(1, 1, 12, 8, class_="mv-paper", style=f"stroke:{color(0)};stroke-width:2", stroke_dasharray="3 2")
    kinds = [
        (svg.rect(0, 0, 14, 10, rx=2, fill=color(0)), "held", 56),
        (svg.group(*bands, svg.rect(0.75, 0.75, 12.5, 8.5, class_="mv-line")), "shared", 68),
        (kept, "free, content kept", 126),
        (svg.line(0, 5, 14, 5, class_="mv-rule"), "free", 54),
        (svg.path("M2 1h7l-7 7z", class_="mv-alert"), "content forgotten", 124),
        (svg.path("M3 2h8l-4 6z", class_="mv-ink"), "found by a hit", 100),
    ]
    x, parts = 0, []
    for drawn, name, width in kinds:
        parts.append(svg.group(drawn, transform=f"translate({x},0)"))
        parts.append(svg.text(x + 19, 9, name, class_="mv-small mv-faint"))
        x += width
    return svg.group(svg.joined(parts), style="pointer-events:none")
