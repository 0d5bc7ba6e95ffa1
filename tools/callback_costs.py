"""`python -m tools.callback_costs`: CPU milliseconds to redraw the panels of notebooks 00 and 09, for each knob.

A knob is turned from where it begins to its ends and its middle, or to each of its choices. `moving` is what follows a
knob that is dragged, `at rest` the whole answer after it. Runs are made in this process, so that their time counts,
too; the start of the process that waits for them does not.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from course.notebook import Lab, bench, engine_panel
from course.notebook.panels import require_result
from course.views.knobs import Knob, Menu, Slide
from course.views.panels import Panel
from course.workloads.small_workload import SMALL_POOL, make_workload

MAX_MS = 300.0


def places(knob: Knob) -> list[Any]:
    if isinstance(knob, Slide):
        middle = knob.low + knob.step * round((knob.high - knob.low) / 2 / knob.step)
        found: list[Any] = [knob.low, middle, knob.high]
    else:
        found = list(knob.options) if isinstance(knob, Menu) else [True, False]
    return [value for value in found if value != knob.value]


def turned(panel: Panel, name: str, value: Any, *, at_rest: bool) -> float:
    """Return the CPU milliseconds of the panel's answer to one turn of a knob."""
    now = panel.question
    values = panel.values | {name: value}
    start = time.process_time()
    panel.question = now | {"ticket": now["ticket"] + 1, "values": values, "before": panel.values, "whole": at_rest}
    return 1e3 * (time.process_time() - start)


def costs(panel: Panel) -> Iterator[tuple[str, float, float]]:
    """Yield each knob's name with the largest cost of its moves, and of its answers at rest."""
    for name, knob in panel.known.items():
        moving, at_rest = list[float](), list[float]()
        for value in places(knob):
            moving.append(turned(panel, name, value, at_rest=False))
            at_rest.append(turned(panel, name, value, at_rest=True))
        panel.set(**{name: knob.value})
        yield name, max(moving), max(at_rest)


def here(function: Callable[..., Any], *arguments: object, **how: object) -> Any:
    """Call in this process what a notebook calls in a new one."""
    return function(*arguments)


def report() -> Iterator[str]:
    """Measure both panels with the reference's engine; yield a line for each knob."""
    lab, config = Lab(5, "solution"), replace(SMALL_POOL, max_model_len=64)
    with patch("course.notebook.phase_code.in_fresh_process", here):
        for title, panel in {
            "engine panel (00)": engine_panel(lab, make_workload(seed=0, num_requests=8), config, step=6),
            "policy bench (09)": bench(lab),
        }.items():
            for name, moving, at_rest in costs(require_result(panel)):
                yield f"{title}  {name:29} moving {moving:5.0f} ms of {MAX_MS:.0f}, at rest {at_rest:5.0f} ms"


if __name__ == "__main__":
    for line in report():
        print(line, flush=True)
