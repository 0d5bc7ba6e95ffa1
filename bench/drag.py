"""From a knob that is dragged to its picture on the screen, event by event: what a panel costs in a real browser."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from course.browser.bare_page import open_widget
from course.notebook import Lab, bench, engine_panel
from course.views.calculator import calculator
from course.workloads.small_workload import SMALL_POOL, make_workload

NUM_MOVES = 15
BEST, RUN_TARGET = 100.0, 300.0
# Each input event, with the milliseconds until the answer to it is painted: one frame after the panel has drawn it.
WATCH = """() => { window.painted = []; let since = null;
  const root = document.getElementById("host"), after = new MessageChannel();
  root.addEventListener("input", () => { since = performance.now(); }, true);
  after.port1.onmessage = () => {
    if (since === null || root.dataset.ticket !== root.dataset.answered) return;
    painted.push(performance.now() - since);
    since = null; };
  new MutationObserver(() => requestAnimationFrame(() => after.port2.postMessage("")))
    .observe(root, { attributes: true, attributeFilter: ["data-answered"] }); }"""
READY = "() => { const { answered, ticket } = document.getElementById('host').dataset; return answered === ticket; }"
SECONDS = 120


@dataclass(frozen=True)
class Dragged:
    """Milliseconds from each move of a knob to the painted picture; `target` is the most that the median should be."""

    name: str
    target: float
    times: list[float]

    @property
    def median(self) -> float:
        return median(self.times)

    @property
    def worst(self) -> float:
        return max(self.times)


@dataclass(frozen=True)
class Dragging:
    """A panel and the knob that is dragged in it."""

    name: str
    target: float
    knob: str
    make: Callable[[], Any]


def draggings() -> Iterator[Dragging]:
    """Return the panels of the notebooks, without the dial. The lab's engine is the reference's."""
    lab = Lab(5, "solution")
    yield Dragging("calculator", BEST, "gpu_memory_utilization", calculator)
    yield Dragging("policy bench, SLO", BEST, "time_to_first_token", lambda: bench(lab))
    yield Dragging("policy bench, load", RUN_TARGET, "load", lambda: bench(lab))
    config = replace(SMALL_POOL, max_model_len=64)
    workload = make_workload(seed=0, num_requests=8)
    yield Dragging("engine panel", RUN_TARGET, "num_gpu_blocks", lambda: engine_panel(lab, workload, config, step=6))


def measure_drag(browser: Any, dragging: Dragging, num_moves: int = NUM_MOVES) -> Dragged:
    """Drag a knob from its left end to the right with the mouse. Raises `RuntimeError` if a move is not answered."""
    page = open_widget(browser, dragging.make(), is_answered=True)
    times = drag(page, dragging.knob, num_moves)
    page.close()
    return Dragged(dragging.name, dragging.target, times)


def drag(page: Any, knob: str, num_moves: int) -> list[float]:
    """Return the milliseconds of each move. The button stays down until the last."""
    slider = page.locator(f'[data-knob="{knob}"]')
    page.wait_for_timeout(300)
    page.wait_for_function(READY)
    page.evaluate(WATCH)
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
    return times[1:]


def wait_for(page: Any, count: int) -> None:
    """Wait until so many moves are painted. Raises `RuntimeError` if one of them never is."""
    from playwright.sync_api import TimeoutError as NotPaintedError

    try:
        page.wait_for_function("(count) => painted.length >= count", arg=count, timeout=1e3 * SECONDS)
    except NotPaintedError as error:
        raise RuntimeError(f"move {count} of the knob was not answered within {SECONDS} seconds") from error
