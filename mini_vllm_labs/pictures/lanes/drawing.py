"""Draws the two lanes of a run: the engine's tasks above the runner's, with brackets for the steps in flight."""

from dataclasses import dataclass

from mini_vllm_labs.pictures import svg
from mini_vllm_labs.pictures.bars import COLOUR
from mini_vllm_labs.pictures.lanes.schedule import APPLY, COMPUTE, PLAN, TEXT, Schedule, Task
from mini_vllm_labs.pictures.parts import LEFT, MARGIN, Part, heading
from mini_vllm_labs.pictures.picture import Layer
from mini_vllm_labs.pictures.step_axis import INTERVALS
from mini_vllm_labs.pictures.typeset import text_width

HIGH, BETWEEN, FLIGHT, TOP = 24, 16, 17, 26
RUNNER = TOP + HIGH + BETWEEN
FLIGHTS = RUNNER + HIGH + 8
SIZE, APART = 12, 0.5
LANES = (("engine", TOP), ("runner", RUNNER), ("in flight", FLIGHTS - 4))


def ms(time: float) -> str:
    return f"{round(time, 1):,g} ms"


def box(kind: str, x: float, y: float, width: float, high: float) -> svg.Markup:
    if kind == PLAN:
        return svg.rect(x, y, width, high, class_="mv-ink", opacity=0.8)
    if kind == COMPUTE:
        return svg.rect(x, y, width, high, fill=COLOUR)
    ground = svg.rect(x, y, width, high, class_="mv-panel")
    if kind == TEXT:
        return ground
    frame = svg.rect(x + 0.5, y + 0.5, max(0, width - 1), high - 1, class_="mv-line", opacity=0.7)
    return svg.joined([ground, frame])


def idle_box(x: float, y: float, width: float, high: float) -> svg.Markup:
    lines = svg.hatch(x, y, width, high, 6, style="stroke:var(--mv-faint)")
    return svg.joined([lines, svg.rect(x, y, width, high, class_="mv-rule")])


IN_VAIN = svg.rect(1, 1, 12, 8, class_="mv-alert-line", stroke_width=1.5, stroke_dasharray="3 2")
SAMPLES = [
    (box(PLAN, 0, 0, 14, 10), "plan a step"),
    (box(APPLY, 0, 0, 14, 10), "apply its tokens"),
    (box(TEXT, 0, 0, 14, 10), "write its text"),
    (box(COMPUTE, 0, 0, 14, 10), "compute a step"),
    (idle_box(0, 0, 14, 10), "runner idle"),
    (svg.joined([svg.line(1, 5, 13, 5, class_="mv-line"), svg.path("M1 2v6M13 2v6", class_="mv-line")]), "in flight"),
]
SAMPLE_IN_VAIN = (svg.joined([box(COMPUTE, 0, 0, 14, 10), IN_VAIN]), "in vain")


@dataclass(frozen=True)
class Scale:
    """Maps times to positions, with `per_ms` px for each ms, up to `end` ms."""

    per_ms: float
    end: float

    def x(self, time: float) -> float:
        return min(time, self.end) * self.per_ms


def lanes_part(name: str, schedule: Schedule, scale: Scale, most_in_flight: int) -> Part:
    """Draw the lanes of a run, with room for the brackets of `most_in_flight` steps."""
    about = f"{ms(schedule.total)}, runner idle for {100 * schedule.idle_share:.0f} % of it"
    names = [svg.text(MARGIN, y + 16, lane, class_="mv-faint") for lane, y in LANES]
    title = [svg.text(MARGIN, 14, name, class_="mv-strong"), svg.text(LEFT, 14, about)]
    end = scale.x(schedule.total)
    end_mark = svg.line(end, TOP - 4, end, RUNNER + HIGH + 4, class_="mv-line mv-end-of-run", stroke_width=2)
    shown = [task for task in (*schedule.engine, *schedule.runner) if task.start < scale.end]
    layers = [
        Layer(f"{name}-names", svg.joined([*title, *names])),
        Layer(f"{name}-idle", svg.joined(idle_times(schedule, scale)), LEFT, RUNNER),
        Layer(f"{name}-arrows", svg.joined(arrows(schedule, scale)), LEFT),
        Layer(f"{name}-tasks", svg.joined(draw_task(task, scale) for task in shown), LEFT),
        Layer(f"{name}-flights", svg.joined(flights(schedule, scale, most_in_flight)), LEFT, FLIGHTS),
        Layer(f"{name}-end", end_mark if schedule.total <= scale.end + 1e-9 else svg.Markup(""), LEFT),
    ]
    legend = [*SAMPLES, *([SAMPLE_IN_VAIN] if any(task.in_vain for task in schedule.runner) else [])]
    return Part(layers, FLIGHTS + FLIGHT * most_in_flight + 14, {"time": legend})


def draw_task(task: Task, scale: Scale) -> svg.Markup:
    y = RUNNER if task.kind == COMPUTE else TOP
    x, width = scale.x(task.start), scale.x(task.end) - scale.x(task.start)
    drawn = [box(task.kind, x + APART, y, max(APART, width - 2 * APART), HIGH)]
    if text_width(str(task.step), SIZE, bold=True) + 2 <= width:
        look = "mv-middle mv-strong mv-paper" if task.kind == PLAN else "mv-middle mv-strong"
        style = "fill:#000" if task.kind == COMPUTE else None
        drawn.append(svg.text(x + width / 2, y + 16.5, str(task.step), class_=look, style=style))
    if task.in_vain:
        red: dict[str, svg.Value] = {"class_": "mv-alert-line mv-in-vain", "stroke_width": 2, "stroke_dasharray": "4 3"}
        drawn.append(svg.rect(x + 1.5, y + 1.5, width - 3, HIGH - 3, **red))
    about = f"{task.kind} step {task.step}: {ms(task.start)} to {ms(task.end)}{', in vain' if task.in_vain else ''}"
    return svg.group(svg.tooltip(about), *drawn, data_task=f"{task.kind}:{task.step}")


def idle_times(schedule: Schedule, scale: Scale) -> list[svg.Markup]:
    return [
        svg.group(
            svg.tooltip(f"the runner is idle for {ms(end - start)}"),
            idle_box(scale.x(start), 0, scale.x(end) - scale.x(start), HIGH),
            class_="mv-idle",
        )
        for start, end in schedule.idle
        if start < scale.end
    ]


def arrows(schedule: Schedule, scale: Scale) -> list[svg.Markup]:
    """Draw lines from each plan down to the step's computation, and from there up to the step's update."""
    applied = {task.step: task.start for task in schedule.engine if task.kind == APPLY}
    planned = {task.step: task.end for task in schedule.engine if task.kind == PLAN}
    drawn, low, high = [], TOP + HIGH, RUNNER
    for task in schedule.runner:
        for start, end, up in ((planned[task.step], task.start, False), (task.end, applied.get(task.step), True)):
            if end is not None and max(start, end) <= scale.end:
                ys = (high, low) if up else (low, high)
                drawn.append(svg.line(scale.x(start), ys[0], scale.x(end), ys[1], class_="mv-line", opacity=0.5))
    return drawn


def flights(schedule: Schedule, scale: Scale, most_in_flight: int) -> list[svg.Markup]:
    """Draw a bracket for each step, from its plan to its update."""
    drawn = []
    for place, (step, start, end) in enumerate(schedule.in_flight):
        if start >= scale.end:
            break
        x, right, y = scale.x(start), scale.x(end), FLIGHT * (place % most_in_flight) + FLIGHT / 2
        ends = f"M{svg.number(x)} {y - 4}v8" + (f"M{svg.number(right)} {y - 4}v8" if end <= scale.end else "")
        parts = [svg.path(f"{ends}M{svg.number(x)} {y}H{svg.number(right)}", class_="mv-line", opacity=0.75)]
        if text_width(str(step), SIZE) + 8 <= right - x:
            half = text_width(str(step), SIZE) / 2 + 3
            parts.append(svg.rect((x + right) / 2 - half, y - 7, 2 * half, 14, class_="mv-paper"))
            parts.append(svg.text((x + right) / 2, y + 4.3, str(step), class_="mv-middle"))
        about = f"step {step} is in flight for {ms(end - start)}"
        drawn.append(svg.group(svg.tooltip(about), *parts, data_flight=str(step)))
    return drawn


def axis_part(scale: Scale, room: float) -> Part:
    widest = text_width(f"{scale.end:.0f} ms", SIZE) + 16
    every = next(interval for interval in INTERVALS if interval * scale.per_ms >= widest)
    drawn = [svg.line(0, 0, room, 0, class_="mv-rule")]
    for number in range(int(scale.end // every) + 1):
        x, word = number * every * scale.per_ms, f"{number * every} ms" if number else "0"
        drawn.append(svg.line(x, 0, x, 4, class_="mv-rule"))
        if x + text_width(word, SIZE) / 2 <= room + 10:
            drawn.append(svg.text(x, 17, word, class_="mv-faint" + (" mv-middle" if number else "")))
    return Part([heading("axis", "time", 15), Layer("axis", svg.joined(drawn), LEFT)], 28)
