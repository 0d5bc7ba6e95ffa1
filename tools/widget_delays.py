"""`python -m tools.widget_delays`: how soon a picture follows a slider or a knob, in a headless Chromium.

It scrubs through the time machine in pools of several sizes, and drags the knobs of the notebooks' panels, the chunking
dial with each of its workloads. `--moves N` of each; `--requests N` in the dial's simulations.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from course.browser.bare_page import open_widget
from course.browser.chromium import headless_chromium
from course.notebook import Lab, bench, engine_panel
from course.traces.recording import Recording
from course.views.calculator import calculator
from course.views.chunking_dial import chunking_dial
from course.views.film import Film
from course.views.panels import Panel
from course.views.show import player
from course.views.time_machine import time_machine
from course.workloads.small_workload import SMALL_POOL, make_workload
from mini_vllm.assembly.lineup import CHECKOUT

RECORDED = CHECKOUT / "labs" / "observed" / "all_phases.jsonl"
POOLS = (20, 200, 2000)
WORKLOADS = ("mixed", "documents", "burst", "chat")
ANSWER_MS, RUN_MS = 100.0, 300.0
"""Maxima for the median of a knob; one that runs an engine may take longer."""
SECONDS = 120
MEASURING = Path(__file__).with_suffix(".js")
STEP = "delayOfStep"  # a function of this script
READY = "() => { const { answered, ticket } = document.getElementById('host').dataset; return answered === ticket; }"


@dataclass(frozen=True)
class WidgetKnob:
    """A knob of a panel; `target` is the maximum for the median of its moves, in milliseconds."""

    panel: str
    name: str
    target: float
    make: Callable[[], Any]


def films() -> Iterator[tuple[int, Film]]:
    """Yield the time machine over the recorded run, in its own pool and in larger ones, by number of blocks."""
    recording = Recording.read(RECORDED)
    for num_blocks in POOLS:
        yield num_blocks, time_machine(Recording(replace(recording.info, num_blocks=num_blocks + 1), recording.steps))


def knobs(num_requests: int) -> Iterator[WidgetKnob]:
    """Yield the knobs of the notebooks' panels. The lab's engine is the reference's."""
    lab = Lab(5, "solution")
    yield WidgetKnob("calculator", "gpu_memory_utilization", ANSWER_MS, calculator)
    yield WidgetKnob("policy bench, SLO", "time_to_first_token", ANSWER_MS, lambda: bench(lab))
    yield WidgetKnob("policy bench, load", "load", RUN_MS, lambda: bench(lab))
    config, workload = replace(SMALL_POOL, max_model_len=64), make_workload(seed=0, num_requests=8)
    yield WidgetKnob("engine panel", "num_gpu_blocks", RUN_MS, lambda: engine_panel(lab, workload, config, step=6))
    for name in WORKLOADS:
        yield WidgetKnob(f"dial, {name}", "max_num_batched_tokens", ANSWER_MS, partial(dial, name, num_requests))


def dial(workload: str, num_requests: int) -> Panel:
    made = chunking_dial(num_requests=num_requests)
    made.set(workload=workload)
    return made


def scrub(browser: Any, film: Film, num_moves: int) -> list[float]:
    """Return the milliseconds of each step through a film. Raises `RuntimeError` if a picture is not its step's."""
    page = open_widget(browser, player(film))
    page.add_script_tag(path=MEASURING)
    times = []
    for number in range(1, num_moves + 1):
        step = 5 * number % len(film)
        times.append(float(page.evaluate(STEP, step)))
        shown = page.locator(".mvw-picture svg").get_attribute("aria-label")
        if not shown.startswith(film[step].title):
            raise RuntimeError(f"the slider is at step {step}, but the picture is {shown!r}")
    page.close()
    return times


def drag(browser: Any, knob: WidgetKnob, num_moves: int) -> list[float]:
    """Drag a knob from left to right with the mouse; return the milliseconds of each move.

    Raises `RuntimeError` if a move is not answered.
    """
    page = open_widget(browser, knob.make(), is_answered=True)
    slider = page.locator(f'[data-knob="{knob.name}"]')
    page.wait_for_timeout(300)
    page.wait_for_function(READY)
    page.add_script_tag(path=MEASURING)
    page.evaluate("watchAnswers()")
    box = slider.bounding_box()
    y, left, width = box["y"] + box["height"] / 2, box["x"] + 8, box["width"] - 16
    page.mouse.move(left, y)
    page.mouse.down()
    wait_for(page, 1)
    for move in range(1, num_moves + 1):
        page.mouse.move(left + width * move / num_moves, y)
        wait_for(page, move + 1)
    page.mouse.up()
    times: list[float] = page.evaluate("painted")
    page.close()
    return times[1:]


def wait_for(page: Any, count: int) -> None:
    """Wait until so many moves are painted. Raises `RuntimeError` if one of them never is."""
    from playwright.sync_api import TimeoutError as NotPaintedError

    try:
        page.wait_for_function("(count) => painted.length >= count", arg=count, timeout=1e3 * SECONDS)
    except NotPaintedError as error:
        raise RuntimeError(f"move {count} of the knob was not answered within {SECONDS} seconds") from error


def report(browser: Any, num_moves: int, num_requests: int) -> Iterator[str]:
    yield f"Milliseconds to the picture, of {num_moves} moves each; Chromium {browser.version}, without Jupyter."
    for num_blocks, film in films():
        times = scrub(browser, film, num_moves)
        yield f"{f'time machine, {num_blocks:,} blocks':26} median {median(times):5.1f}, slowest {max(times):5.1f}"
    for knob in knobs(num_requests):
        times = drag(browser, knob, num_moves)
        yield f"{knob.panel:26} median {median(times):5.1f} of {knob.target:.0f}, slowest {max(times):5.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.widget_delays", description=__doc__)
    parser.add_argument("--moves", type=int, default=15, help="moves of each slider and knob")
    parser.add_argument("--requests", type=int, default=2_000, help="simulated requests per change of the dial")
    chosen = parser.parse_args()
    with headless_chromium() as browser:
        for line in report(browser, chosen.moves, chosen.requests):
            print(line, flush=True)


if __name__ == "__main__":
    main()
