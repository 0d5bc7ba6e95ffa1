"""Draws the whole run with one line per request and the current step marked, in steps and in time."""

from collections.abc import Mapping, Sequence

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.parts import LEFT, Part, heading
from mini_vllm_labs.pictures.picture import Layer
from mini_vllm_labs.pictures.step_axis import AXIS, StepAxis
from mini_vllm_labs.pictures.text import counted, ranges
from mini_vllm_labs.pictures.tiles import on_tile, tile
from mini_vllm_labs.pictures.time_machine.history import Histories, RequestHistory, Span, Wait
from mini_vllm_labs.pictures.typeset import first_fitting, text_width
from mini_vllm_labs.runs.palette import color, ink_on
from mini_vllm_labs.runs.traces.run_state import RunInfo, RunState

MAX_ROWS, MAX_HEIGHT, TOP = 32, 160, 6
MAX_ROW_HEIGHT, MIN_ROW_HEIGHT, MIN_ROW_HEIGHT_FOR_TEXT = 22, 14, 16
MIN_TICK_DISTANCE, MIN_STUCK_WIDTH = 3, 4
SAMPLES = [
    (svg.line(0, 5, 14, 5, class_="mv-line", opacity=0.55), "waiting"),
    (svg.line(0, 5, 14, 5, class_="mv-line", stroke_dasharray="2 3", opacity=0.55), "skipped"),
    (svg.path("M4 0l5 0l-5 7z", class_="mv-ink"), "prefix-cache hit"),
    (svg.element("circle", cx=7, cy=5, r=3.2, class_="mv-paper", style="stroke:var(--mv-ink)"), "first token"),
    (svg.path("M3 1l8 8m0 -8l-8 8", class_="mv-alert-line", stroke_width=2.5), "preempted"),
    (svg.line(7, 0, 7, 10, class_="mv-line", stroke_width=2), "finished"),
]
DIFFERENCE = (svg.path("M2 1h10l-5 8z", class_="mv-alert"), "they part")


class Timeline:
    """Draws the rows of all requests only once per scale, because only the cursor and the row heads change."""

    def __init__(
        self,
        info: RunInfo,
        histories: Histories,
        axes: Mapping[str, StepAxis],
        mark: int | None = None,
        most_high: float = MAX_HEIGHT,
        shown: Sequence[str] | None = None,
        num_rows: int = 0,
        max_rows: int = MAX_ROWS,
        num_hidden: int | None = None,
    ) -> None:
        """`axes` contains the positions of the steps, keyed by scale. `mark` is a step to highlight: the first
        difference.

        All rows together take at most `most_high` px, unless their text needs more. `shown` lists the requests that get
        a row (default: the first `max_rows` of the run); there is always room for at least `num_rows` rows.
        `num_hidden` requests are omitted (default: all others in the run).
        """
        self.info, self.histories, self.axes, self.mark = info, histories, axes, mark
        self.shown = list(info.titles)[:max_rows] if shown is None else shown
        self.num_rows = max(num_rows, len(self.shown))
        self.row = max(MIN_ROW_HEIGHT, min(MAX_ROW_HEIGHT, int(most_high / max(1, self.num_rows))))
        self.height = self.row * self.num_rows
        self.drawn = {scale: self._unchanging(scale) for scale in axes}
        ground = svg.rect(0, 0, LEFT - 20, self.row, fill="transparent")
        self.boxes = [
            svg.joined([ground, tile(info.index(i), info.label(i), 0, 1, 30, self.row - 2)]) for i in self.shown
        ]
        hidden = len(info.titles) - len(self.shown) if shown is None else num_hidden
        self.caption = counted(hidden, "more request") if hidden else ""
        self.foot = 20 if self.caption or num_hidden is not None else 8  # constant even when `num_hidden` changes

    def part(self, state: RunState, step: int, *, with_axis: bool = True) -> Part:
        below = self.height + TOP
        layers = [self._head(place, request_id, state) for place, request_id in enumerate(self.shown)]
        for place in range(len(self.shown), self.num_rows):  # all frames of a film have the same layers
            layers.append(Layer(f"head-{place}", svg.Markup(""), x=12, y=TOP + place * self.row))
        for scale, axis in self.axes.items():
            end = "" if scale == "steps" else f"-{scale}"
            cursor = svg.group(axis.cursor(step, self.height, f"cursor{end}"), class_=f"mv-in-{scale}")
            for name, shown in (self.drawn[scale] | {"cursor": cursor}).items():
                if name != "axis" or with_axis:
                    layers.append(Layer(f"timeline-{name}{end}", shown, x=LEFT, y=below if name == "axis" else TOP))
        legend = {"timeline": [*SAMPLES, *([DIFFERENCE] if self.mark is not None else [])]}
        if not with_axis:
            return Part(layers, below + 10, legend)
        layers.append(heading("timeline", "step", below + 14, self.caption))
        return Part(layers, below + AXIS + self.foot, legend)

    def _unchanging(self, scale: str) -> dict[str, svg.Markup]:
        """Draw the layers that are the same in every step on one scale; the cursor is inserted between them."""
        axis = self.axes[scale]
        rule = svg.line(0, 0, axis.x(axis.num_steps), 0, class_="mv-rule")
        drawn = {
            "rows": self._rows(scale),
            "axis": svg.joined([rule, axis.numbers()]),
            "cursor": svg.Markup(""),
            "mark": self._mark(axis),
            # drawn on top of the cursor's and the mark's lines, which would otherwise cross the letters
            "names": self._names(scale),
            "columns": axis.columns(-3, self.height + 3 + AXIS),
        }
        return {name: svg.group(content, class_=f"mv-in-{scale}") for name, content in drawn.items()}

    def _head(self, place: int, request_id: str, state: RunState) -> Layer:
        index, label = self.info.index(request_id), self.info.label(request_id)
        high, y = self.row, TOP + place * self.row
        reached, known = state.num_reached(request_id), state.num_tokens(request_id)
        table = ranges(state.tables.get(request_id, [])) or "none"
        text = self.histories.of[request_id].text(state, request_id, f"{self.info.unit}s {table}")
        title = "" if self.info.titles[request_id] in (request_id, label) else f" ({self.info.titles[request_id]})"
        drawn = svg.group(
            svg.tooltip(f"{label}: {text}{title}"),
            self.boxes[place],
            svg.text(LEFT - 20, high / 2 + 4.3, f"{reached}/{known}", class_="mv-end"),
            data_request=str(index),
            class_="mv-link",
        )
        return Layer(f"head-{place}", drawn, x=12, y=y, data={"about": f"request:{index}"})

    def _rows(self, scale: str) -> svg.Markup:
        rows = [self._row(request_id, self._drawn_row(request_id, scale)) for request_id in self.shown]
        axis, stuck = self.axes[scale], self.histories.stuck
        if stuck is not None:
            x, width = axis.x(stuck), max(MIN_STUCK_WIDTH, axis.width(stuck))
            rows.append(svg.rect(x, 0, width, self.height, class_="mv-alert mv-stuck", opacity=0.18))
        return svg.joined(rows)

    def _names(self, scale: str) -> svg.Markup:
        """Draw the text in the rows: the waits in time, and the stuck step."""
        axis, stuck, names = self.axes[scale], self.histories.stuck, list[svg.Markup]()
        for request_id in self.shown if scale == "time" else ():
            waits = self.histories.all_waits[request_id]
            names.append(self._row(request_id, [self._wait_name(axis, request_id, wait) for wait in waits]))
        if stuck is not None:
            middle = self.height / 2 + 4
            names.append(svg.text(axis.x(stuck) + 4, middle, "stuck", class_="mv-strong mv-alert mv-cased"))
        return svg.joined(names)

    def _row(self, request_id: str, parts: Sequence[svg.Markup]) -> svg.Markup:
        y, index = self.shown.index(request_id) * self.row, self.info.index(request_id)
        return svg.group(*parts, transform=f"translate(0,{svg.number(y)})", data_request=str(index))

    def _drawn_row(self, request_id: str, scale: str) -> list[svg.Markup]:
        index, history, axis = self.info.index(request_id), self.histories.of[request_id], self.axes[scale]
        first, end = axis.first, axis.first + axis.num_steps
        parts = [self._span(axis, span, index) for span in history.spans if span.last >= first and span.first < end]
        if scale == "time":
            parts += [self._tick(axis, wait) for wait in self.histories.all_waits[request_id]]
        return parts + self._events(axis, history)

    def _span(self, axis: StepAxis, span: Span, index: int) -> svg.Markup:
        high, x, end = self.row, axis.x(span.first), axis.x(span.last + 1)
        if not span.computes:
            dashes = "2 3" if span.kind == "skipped" else None
            return svg.line(x, high / 2, end, high / 2, class_="mv-line", stroke_dasharray=dashes, opacity=0.55)
        bar = svg.rect(x, 3, end - x, high - 6, fill=color(index))
        hatched = svg.hatch(x, 3, end - x, high - 6, 5, stroke=ink_on(index))
        return bar if span.kind == "decode" else svg.joined([bar, hatched])

    def _tick(self, axis: StepAxis, wait: Wait) -> svg.Markup:
        end, style = axis.x(wait.last + 1), "stroke:var(--mv-paper)"
        if end - axis.x(wait.first) < MIN_TICK_DISTANCE:
            return svg.Markup("")
        return svg.line(end, 3, end, self.row - 3, class_="mv-token", style=style, stroke_width=1.5)

    def _wait_name(self, axis: StepAxis, request_id: str, wait: Wait) -> svg.Markup:
        """Draw a wait's token count if there is room, between arrows if the request computes throughout."""
        index, history = self.info.index(request_id), self.histories.of[request_id]
        x, end, middle = axis.x(wait.first), axis.x(wait.last + 1), self.row / 2
        tokens = counted(wait.num_tokens, "token")
        names = (f"first after {tokens}", tokens) if wait.is_first else (f"{tokens} to the next", tokens)
        computing = (span.first for span in history.spans if span.last >= wait.first and span.computes)
        start = max(x, axis.x(next(computing, wait.last)))
        idle = axis.x(wait.first + 1) if wait.first in history.preemptions else x
        left, right = max((idle, start), (start, end), key=lambda part: part[1] - part[0])
        name = first_fitting(names, right - left - 36, bold=True)
        if not name or self.row < MIN_ROW_HEIGHT_FOR_TEXT:
            return svg.Markup("")
        half, centre, y = text_width(name, 12, bold=True) / 2, (left + right) / 2, middle + 4.3
        if right == start:
            named = [svg.text(centre, y, name, class_="mv-middle mv-strong mv-cased")]
        else:
            arrow = f"M{left + 7:.1f} {middle - 4:g}l-4 4l4 4m-4 -4H{centre - half:.1f}"
            arrow += f"M{centre + half:.1f} {middle:g}H{right - 3:.1f}m-4 -4l4 4l-4 4"
            drawn = svg.path(arrow, fill="none", stroke=ink_on(index), stroke_width=1.5)
            ground = svg.rect(centre - half, 3, 2 * half, self.row - 6, fill=color(index))
            named = [ground, *([drawn] if start == x else []), on_tile(index, centre, y, name)]
        about = svg.tooltip(f"steps {wait.first} to {wait.last} computed {tokens}")
        return svg.group(about, *named, class_="mv-wait")

    def _events(self, axis: StepAxis, history: RequestHistory) -> list[svg.Markup]:
        half = self.row / 2
        hits = [step for step, _ in history.hits if axis.has(step)]
        parts = [svg.path(f"M{axis.x(step):.1f} 1.5l5 0l-5 7z", class_="mv-ink mv-hit") for step in hits]
        if history.first_token is not None and axis.has(history.first_token):
            x, style = axis.x(history.first_token + 1) - 1, "stroke:var(--mv-ink)"
            parts.append(svg.element("circle", cx=x, cy=half, r=3.2, class_="mv-paper mv-first", style=style))
        for step in filter(axis.has, history.preemptions):
            x, r = axis.middle(step), min(4.0, half - 2)
            cross = f"M{x - r:.1f} {half - r:.1f}l{2 * r:.1f} {2 * r:.1f}m0 {-2 * r:.1f}l{-2 * r:.1f} {2 * r:.1f}"
            parts.append(svg.path(cross, class_="mv-alert-line mv-preempted", stroke_width=2.5))
        if history.end is not None and axis.has(history.end[0]):
            x, kind = axis.x(history.end[0] + 1), "alert-line" if history.end[1] == "abort" else "line"
            parts.append(svg.line(x, 1, x, self.row - 2, class_=f"mv-{kind} mv-end-of-request", stroke_width=2))
        return parts

    def _mark(self, axis: StepAxis) -> svg.Markup:
        """Draw a red line before the marked step, with a flag above the line that does not touch the cursor."""
        if self.mark is None:
            return svg.Markup("")
        x = axis.x(self.mark)
        line = svg.line(x, -4, x, self.height + 4, class_="mv-alert-line mv-difference", stroke_width=2)
        return svg.joined([line, svg.path(f"M{x - 5:.1f} -9h10l-5 8z", class_="mv-alert")])
