"""The whole run on one line per request, with the current step marked."""

from course.palette import color, ink_on
from course.traces.run_state import RunInfo, RunState
from course.views import svg
from course.views.parts import LEFT, Part, heading, legend
from course.views.picture import Layer
from course.views.step_axis import AXIS, StepAxis
from course.views.svg import Markup
from course.views.text import spaced
from course.views.tiles import tile
from course.views.time_machine.history import Histories, RequestHistory, Span

MOST_ROWS = 32
TOP = 6
SAMPLES = [
    (svg.line(0, 5, 14, 5, class_="mv-line", opacity=0.55), "waiting"),
    (svg.line(0, 5, 14, 5, class_="mv-line", stroke_dasharray="2 3", opacity=0.55), "skipped"),
    (svg.path("M4 0l5 0l-5 7z", class_="mv-ink"), "prefix-cache hit"),
    (svg.element("circle", cx=7, cy=5, r=3.2, class_="mv-paper", style="stroke:var(--mv-ink)"), "first token"),
    (svg.path("M3 1l8 8m0 -8l-8 8", class_="mv-alert-line", stroke_width=2.5), "preempted"),
    (svg.line(7, 0, 7, 10, class_="mv-line", stroke_width=2), "finished"),
]


class Timeline:
    """The rows of all requests: drawn once, because only the cursor and the row heads change."""

    def __init__(self, info: RunInfo, histories: Histories, num_steps: int, mark: int | None = None) -> None:
        """`mark` is a step to point out, such as the first difference from another run."""
        self.info, self.histories, self.steps = info, histories, StepAxis(num_steps)
        self.shown = list(info.titles)[:MOST_ROWS]
        self.row = 22 if len(self.shown) <= 12 else 17 if len(self.shown) <= 20 else 13
        self.height = self.row * len(self.shown)
        self.rows = svg.joined([self._row(place, request_id) for place, request_id in enumerate(self.shown)])
        self.axis, self.columns = self._axis(mark), self.steps.columns(-3, self.height + 3 + AXIS)
        num_hidden = len(info.titles) - len(self.shown)
        hidden = f"{num_hidden} more requests" if num_hidden else ""
        self.caption = hidden or ("red: first difference" if mark is not None else "")

    def part(self, state: RunState, step: int, *, with_legend: bool = True) -> Part:
        """Return the timeline with its cursor on `step`."""
        below = self.height + TOP
        layers = [
            *[self._head(place, request_id, state) for place, request_id in enumerate(self.shown)],
            Layer("timeline-rows", self.rows, x=LEFT, y=TOP),
            Layer("timeline-axis", self.axis, x=LEFT, y=below),
            Layer("timeline-cursor", self.steps.cursor(step, self.height), x=LEFT, y=TOP),
            Layer("timeline-columns", self.columns, x=LEFT, y=TOP),
            heading("timeline", "step", below + 12, self.caption),
        ]
        if not with_legend:
            return Part(layers, below + AXIS + 14)
        return Part([*layers, Layer("timeline-legend", legend(SAMPLES), x=LEFT, y=below + AXIS + 6)], below + AXIS + 24)

    def _head(self, place: int, request_id: str, state: RunState) -> Layer:
        index, label = self.info.index(request_id), self.info.label(request_id)
        high, y = self.row, TOP + place * self.row
        reached, known = state.computed.get(request_id, 0), state.num_tokens(request_id)
        table = spaced(state.tables.get(request_id, [])) or "none"
        text = self.histories.of[request_id].text(state, request_id, f"blocks {table}")
        title = "" if self.info.titles[request_id] in (request_id, label) else f" ({self.info.titles[request_id]})"
        drawn = svg.group(
            svg.tooltip(f"{label}: {text}{title}"),
            svg.rect(0, 0, LEFT - 20, high, fill="transparent"),
            tile(index, label, 0, 1.5, 30, high - 3, size=min(12, high - 4)),
            svg.text(LEFT - 20, high / 2 + 3.5, f"{reached}/{known}", class_="mv-end mv-small"),
            data_request=str(index),
            class_="mv-link",
        )
        return Layer(f"head-{place}", drawn, x=12, y=y, data={"about": f"request:{index}"})

    def _row(self, place: int, request_id: str) -> Markup:
        index, history = self.info.index(request_id), self.histories.of[request_id]
        parts = [self._span(span, index) for span in history.spans] + self._events(history)
        return svg.group(*parts, transform=f"translate(0,{svg.number(place * self.row)})", data_request=str(index))

    def _span(self, span: Span, index: int) -> Markup:
        high, x, end = self.row, self.steps.x(span.first), self.steps.x(span.last + 1)
        if span.kind in ("waiting", "skipped"):
            dashes = "2 3" if span.kind == "skipped" else None
            return svg.line(x, high / 2, end, high / 2, class_="mv-line", stroke_dasharray=dashes, opacity=0.55)
        bar = svg.rect(x, 3, end - x, high - 6, fill=color(index))
        hatched = svg.hatch(x, 3, end - x, high - 6, 5, stroke=ink_on(index))
        return bar if span.kind == "decode" else svg.joined([bar, hatched])

    def _events(self, history: RequestHistory) -> list[Markup]:
        half = self.row / 2
        parts = [
            svg.path(f"M{self.steps.x(step):.1f} 1.5l5 0l-5 7z", class_="mv-ink mv-hit") for step, _ in history.hits
        ]
        if history.first_token is not None:
            x, style = self.steps.x(history.first_token + 1) - 1, "stroke:var(--mv-ink)"
            parts.append(svg.element("circle", cx=x, cy=half, r=3.2, class_="mv-paper mv-first", style=style))
        for step in history.preemptions:
            x, r = self.steps.x(step + 0.5), min(4.0, half - 2)
            cross = f"M{x - r:.1f} {half - r:.1f}l{2 * r:.1f} {2 * r:.1f}m0 {-2 * r:.1f}l{-2 * r:.1f} {2 * r:.1f}"
            parts.append(svg.path(cross, class_="mv-alert-line mv-preempted", stroke_width=2.5))
        if history.end is not None:
            x, kind = self.steps.x(history.end[0] + 1), "alert-line" if history.end[1] == "abort" else "line"
            parts.append(svg.line(x, 1, x, self.row - 2, class_=f"mv-{kind} mv-end-of-request", stroke_width=2))
        return parts

    def _axis(self, mark: int | None) -> Markup:
        rule = svg.line(0, 0, self.steps.x(self.steps.num_steps), 0, class_="mv-rule")
        if mark is None:
            return svg.joined([rule, self.steps.numbers()])
        x, top = self.steps.x(mark), -self.height - 4
        marked = svg.line(x, top, x, 4, class_="mv-alert-line mv-difference", stroke_width=2)
        return svg.joined([rule, self.steps.numbers(), marked])
