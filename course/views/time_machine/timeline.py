"""The whole run on one line per request, with the current step marked."""

from dataclasses import dataclass

from course.palette import color, ink_on
from course.traces.run_state import RunInfo, RunState
from course.views import svg
from course.views.picture import Layer
from course.views.svg import Markup
from course.views.tiles import tile
from course.views.time_machine.history import Histories, RequestHistory, Span
from course.views.time_machine.parts import LEFT, SPAN, Part, heading

MOST_ROWS = 32
MOST_STEP_WIDTH = 22
AXIS = 16
TOP = 6


@dataclass(frozen=True)
class Scale:
    """Where steps and rows are."""

    num_steps: int
    num_rows: int

    @property
    def step_width(self) -> float:
        return min(MOST_STEP_WIDTH, SPAN / max(1, self.num_steps))

    @property
    def row_height(self) -> float:
        return 22 if self.num_rows <= 12 else 17 if self.num_rows <= 20 else 13

    @property
    def height(self) -> float:
        return self.num_rows * self.row_height

    def x(self, step: float) -> float:
        """Return the left edge of a step."""
        return step * self.step_width


class Timeline:
    """The rows of all requests: drawn once, because only the cursor and the row heads change."""

    def __init__(self, info: RunInfo, histories: Histories, num_steps: int, mark: int | None = None) -> None:
        """`mark` is a step to point out, as the first difference from another run."""
        self.info, self.histories = info, histories
        self.shown = list(info.titles)[:MOST_ROWS]
        self.num_hidden = len(info.titles) - len(self.shown)
        self.scale = Scale(num_steps, len(self.shown))
        self.rows = svg.joined([self._row(place, request_id) for place, request_id in enumerate(self.shown)])
        self.axis, self.columns = self._axis(mark), self._columns()
        hidden = f"{self.num_hidden} more requests" if self.num_hidden else ""
        self.caption = hidden or ("red: where they part" if mark is not None else "")

    def part(self, state: RunState, step: int, *, with_legend: bool = True) -> Part:
        """Return the timeline with its cursor on `step`."""
        scale, below = self.scale, self.scale.height + TOP
        width = scale.step_width + 2
        cursor = svg.rect(scale.x(step) - 1, -3, width, scale.height + 6, rx=2, class_="mv-changed")
        heads = [self._head(place, request_id, state, step) for place, request_id in enumerate(self.shown)]
        layers = [
            *heads,
            Layer("timeline-rows", self.rows, x=LEFT, y=TOP),
            Layer("timeline-axis", self.axis, x=LEFT, y=below),
            Layer("timeline-cursor", cursor, x=LEFT, y=TOP),
            Layer("timeline-columns", self.columns, x=LEFT, y=TOP),
            heading("timeline", "step", below + 12, self.caption),
        ]
        if not with_legend:
            return Part(layers, below + AXIS + 14)
        return Part([*layers, Layer("timeline-legend", legend(), x=LEFT, y=below + AXIS + 6)], below + AXIS + 24)

    def _head(self, place: int, request_id: str, state: RunState, step: int) -> Layer:
        index, label = self.info.index(request_id), self.info.label(request_id)
        high, y = self.scale.row_height, TOP + place * self.scale.row_height
        known = state.num_tokens(request_id)
        reached = state.computed.get(request_id, 0)
        table = " ".join(map(str, state.tables.get(request_id, []))) or "none"
        past = self.histories.of[request_id].words(step)
        words = f"{label}: {state.status(request_id)}, {reached} of {known} tokens computed, blocks {table}"
        title = "" if self.info.titles[request_id] in (request_id, label) else f" ({self.info.titles[request_id]})"
        drawn = svg.group(
            svg.tooltip(words + (f", {past}" if past else "") + title),
            svg.rect(0, 0, LEFT - 20, high, fill="transparent"),
            tile(index, label, 0, 1.5, 30, high - 3, size=min(12, high - 4)),
            svg.text(LEFT - 20, high / 2 + 3.5, f"{reached}/{known}", class_="mv-end mv-small"),
            data_request=str(index),
            class_="mv-link",
        )
        return Layer(f"head-{place}", drawn, x=12, y=y, data={"about": f"request:{index}"})

    def _row(self, place: int, request_id: str) -> Markup:
        index, history, high = self.info.index(request_id), self.histories.of[request_id], self.scale.row_height
        parts = [self._span(span, index) for span in history.spans]
        parts += self._events(history, index)
        return svg.group(*parts, transform=f"translate(0,{svg.number(place * high)})", data_request=str(index))

    def _span(self, span: Span, index: int) -> Markup:
        high, x, end = self.scale.row_height, self.scale.x(span.first), self.scale.x(span.last + 1)
        if span.kind in ("waiting", "skipped"):
            dashes = "2 3" if span.kind == "skipped" else None
            return svg.line(x, high / 2, end, high / 2, class_="mv-line", stroke_dasharray=dashes, opacity=0.55)
        bar = svg.rect(x, 3, end - x, high - 6, fill=color(index))
        hatched = svg.hatch(x, 3, end - x, high - 6, 5, stroke=ink_on(index))
        return bar if span.kind == "decode" else svg.joined([bar, hatched])

    def _events(self, history: RequestHistory, index: int) -> list[Markup]:
        high, half = self.scale.row_height, self.scale.row_height / 2
        parts = []
        for step, _ in history.hits:
            x = self.scale.x(step)
            parts.append(svg.path(f"M{x:.1f} 1.5l5 0l-5 7z", class_="mv-ink mv-hit"))
        if history.first_token is not None:
            x = self.scale.x(history.first_token + 1) - 1
            parts.append(
                svg.element("circle", cx=x, cy=half, r=3.2, class_="mv-paper mv-first", style="stroke:var(--mv-ink)")
            )
        for step in history.preemptions:
            x, r = self.scale.x(step + 0.5), min(4.0, half - 2)
            cross = f"M{x - r:.1f} {half - r:.1f}l{2 * r:.1f} {2 * r:.1f}m0 {-2 * r:.1f}l{-2 * r:.1f} {2 * r:.1f}"
            parts.append(svg.path(cross, class_="mv-alert-line mv-preempted", stroke_width=2.5))
        if history.end is not None:
            x, kind = self.scale.x(history.end[0] + 1), "alert-line" if history.end[1] == "abort" else "line"
            parts.append(svg.line(x, 1, x, high - 2, class_=f"mv-{kind} mv-end-of-request", stroke_width=2))
        return parts

    def _axis(self, mark: int | None) -> Markup:
        every = next(k for k in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**9) if k * self.scale.step_width >= 28)
        numbers = [
            svg.text(self.scale.x(step + 0.5), 12, str(step), class_="mv-middle mv-small mv-faint")
            for step in range(0, self.scale.num_steps, every)
        ]
        parts = [svg.line(0, 0, self.scale.x(self.scale.num_steps), 0, class_="mv-rule"), *numbers]
        if mark is not None:
            x, top = self.scale.x(mark), -self.scale.height - 4
            parts.append(svg.line(x, top, x, 4, class_="mv-alert-line mv-difference", stroke_width=2))
        return svg.joined(parts)

    def _columns(self) -> Markup:
        scale = self.scale
        columns = [
            svg.rect(scale.x(step), -3, scale.step_width, scale.height + 3 + AXIS, data_go_to=str(step))
            for step in range(scale.num_steps)
        ]
        return svg.group(*columns, fill="transparent", class_="mv-link")


def legend() -> Markup:
    """Return what the marks mean."""
    kinds = [
        (svg.line(0, 5, 14, 5, class_="mv-line", opacity=0.55), "waits", 62),
        (svg.line(0, 5, 14, 5, class_="mv-line", stroke_dasharray="2 3", opacity=0.55), "sits out", 76),
        (svg.path("M4 0l5 0l-5 7z", class_="mv-ink"), "prefix-cache hit", 116),
        (svg.element("circle", cx=7, cy=5, r=3.2, class_="mv-paper", style="stroke:var(--mv-ink)"), "first token", 92),
        (svg.path("M3 1l8 8m0 -8l-8 8", class_="mv-alert-line", stroke_width=2.5), "preempted", 90),
        (svg.line(7, 0, 7, 10, class_="mv-line", stroke_width=2), "ends", 60),
    ]
    x, parts = 0, []
    for drawn, name, width in kinds:
        parts.append(svg.group(drawn, transform=f"translate({x},0)"))
        parts.append(svg.text(x + 19, 9, name, class_="mv-small mv-faint"))
        x += width
    return svg.joined(parts)
