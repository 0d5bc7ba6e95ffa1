"""Draws a sequential run above a run planned ahead on the same time scale, with knobs for step times."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mini_vllm_labs.pictures.knobs import Slider
from mini_vllm_labs.pictures.lanes.drawing import Scale, axis_part, lanes_part, ms
from mini_vllm_labs.pictures.lanes.schedule import Schedule, schedule_of
from mini_vllm_labs.pictures.parts import WIDTHS, headline_part, page, span_of
from mini_vllm_labs.pictures.picture import WIDTH, Picture
from mini_vllm_labs.pictures.text import counted, facts
from mini_vllm_labs.runs.traces.recording import Recording

if TYPE_CHECKING:
    from mini_vllm_labs.pictures.panels import Panel

PLAN_MS, COMPUTE_MS = 4.0, 8.0
MIN_STEP, END_ROOM = 64, 4
SIMULATED = "The order is that of the recorded steps; the times are simulated."


def lanes(
    runs: Mapping[str, Recording], plan_ms: float = PLAN_MS, compute_ms: float = COMPUTE_MS, width: float | None = None
) -> Picture:
    """Draw the lanes of each run (runs are keyed by name): the engine's and the runner's tasks over time.

    In each step, the engine takes `plan_ms`: half to plan, a quarter to apply the tokens, and a quarter to write the
    text. The runner takes `compute_ms` for the step. Only the beginning of a long run is drawn. `width` is the page's
    width; without it, the picture also has a narrow version. Raises `ValueError` if there are no runs, or if a time is
    not greater than 0.
    """
    if not runs or not all(run.steps for run in runs.values()):
        raise ValueError("lanes need at least one run that has a step")
    if plan_ms <= 0 or compute_ms <= 0:
        raise ValueError(f"plan_ms and compute_ms must be greater than 0, got {plan_ms} and {compute_ms}")
    schedules = {name: schedule_of(run, plan_ms, compute_ms) for name, run in runs.items()}
    if width is None:
        wide = drawing(schedules, plan_ms, compute_ms, WIDTH)
        return replace(wide, narrow=drawing(schedules, plan_ms, compute_ms, WIDTHS[0]))
    return drawing(schedules, plan_ms, compute_ms, max((one for one in WIDTHS if one <= width), default=WIDTHS[0]))


def lanes_panel(
    runs: Mapping[str, Recording], finish: Callable[[Picture], Picture] = lambda picture: picture
) -> "Panel":
    """Return knobs for the two times, shown above the runs' lanes; `finish` may change each picture."""
    from mini_vllm_labs.pictures.panels import Panel

    def draw(
        plan_ms: float, compute_ms: float, width: float = WIDTH, before: Mapping[str, Any] | None = None
    ) -> Picture:
        return finish(lanes(runs, plan_ms, compute_ms, width))

    knobs = [
        Slider("plan_ms", "the engine's work for a step", PLAN_MS, 0.5, 20, 0.5, "ms"),
        Slider("compute_ms", "computing a step", COMPUTE_MS, 0.5, 20, 0.5, "ms"),
    ]
    return Panel(knobs, draw, reflows=True)


def drawing(schedules: Mapping[str, Schedule], plan_ms: float, compute_ms: float, width: float) -> Picture:
    room = span_of(width) - END_ROOM
    longest = max(schedules.values(), key=lambda schedule: schedule.total)
    end = min(longest.total, room / MIN_STEP * (plan_ms + compute_ms))
    scale = Scale(room / end, end)
    most = max(schedule.most_in_flight for schedule in schedules.values()) or 1
    title = f"per step: engine {ms(plan_ms)}, runner {ms(compute_ms)}"
    cut = "" if end == longest.total else f"the first {ms(end)} of {ms(longest.total)}"
    parts = [headline_part(title, cut, width)]
    parts += [lanes_part(name, schedule, scale, most) for name, schedule in schedules.items()]
    parts.append(axis_part(scale, room))
    told = sentence(schedules, plan_ms, compute_ms)
    return page(f"Lanes: {title}", parts, told, text_alternative(schedules, told), width)


def sentence(schedules: Mapping[str, Schedule], plan_ms: float, compute_ms: float) -> str:
    """Describe how long the runs take, and whether the engine or the runner limits them."""
    times = ", ".join(f"{name} {ms(schedule.total)}" for name, schedule in schedules.items())
    ahead = max(schedule.most_in_flight for schedule in schedules.values())
    if ahead < 2:
        told = "No step is planned before the one before is applied: the runner waits for the engine in each step."
    elif plan_ms <= compute_ms:
        told = f"{ms(plan_ms)} of the engine fit into {ms(compute_ms)} of computing: all of it is hidden."
    else:
        longer = ms(plan_ms - compute_ms)
        told = f"The engine takes {longer} longer than the runner: so long the runner waits in each step."
    return f"{times[0].upper()}{times[1:]}. {told} {SIMULATED}"


def text_alternative(schedules: Mapping[str, Schedule], told: str) -> str:
    lines: list[tuple[str, object]] = [("what happens", told)]
    for name, schedule in schedules.items():
        total = f"{ms(schedule.total)} for {counted(schedule.num_steps, 'step')}"
        lines.append((name, f"{total}, the runner idle for {100 * schedule.idle_share:.0f} %"))
        lines.append((f"{name}, most steps in flight", schedule.most_in_flight))
        for lane, tasks in (("engine", schedule.engine), ("runner", schedule.runner)):
            lines.append((f"{name}, {lane}", "; ".join(task.text for task in tasks)))
    return facts(lines)
