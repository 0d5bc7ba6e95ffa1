"""From a slider's step to its picture on the screen: what a player costs in a real browser."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from course.browser.bare_page import open_widget
from course.traces.recording import Recording
from course.views.film import Film
from course.views.show import player
from course.views.time_machine import time_machine
from mini_vllm.assembly.lineup import CHECKOUT

RECORDED = CHECKOUT / "labs" / "observed" / "all_phases.jsonl"
POOLS = (20, 200, 2000)
NUM_STEPS = 40
# Milliseconds until what the event changed is on the screen: a message after the next frame comes when it is painted.
PAINTED = """const painted = (change) => new Promise((done) => {
  const start = performance.now(), after = new MessageChannel();
  after.port1.onmessage = () => done(performance.now() - start);
  change();
  requestAnimationFrame(() => after.port2.postMessage("")); });"""
STEP = f"""(step) => {{ {PAINTED}
  const slider = document.querySelector('input[type="range"]');
  return painted(() => {{ slider.value = step; slider.dispatchEvent(new Event("input")); }}); }}"""
NOTHING = f"() => {{ {PAINTED} return painted(() => {{}}); }}"


@dataclass(frozen=True)
class Shown:
    """Milliseconds from the slider's event to the painted picture, step by step, and of frames without any change."""

    num_blocks: int
    steps: list[float]
    nothing: list[float]

    @property
    def median(self) -> float:
        return median(self.steps)

    @property
    def worst(self) -> float:
        return max(self.steps)


def films() -> Iterator[tuple[int, Film]]:
    """Return the time machine over the recorded run, in its own pool and in larger ones, by number of blocks."""
    recording = Recording.read(RECORDED)
    for num_blocks in POOLS:
        yield num_blocks, time_machine(Recording(replace(recording.info, num_blocks=num_blocks + 1), recording.steps))


def measure_widget(browser: Any, num_blocks: int, film: Film, num_steps: int = NUM_STEPS) -> Shown:
    """Scrub back and forth through a film. Raises `RuntimeError` if a picture is not that of its step."""
    page = open_widget(browser, player(film))
    nothing = [float(page.evaluate(NOTHING)) for _ in range(num_steps)]
    steps = []
    for number in range(1, num_steps + 1):
        step = 5 * number % len(film)
        steps.append(float(page.evaluate(STEP, step)))
        shown = page.locator(".mvw-picture svg").get_attribute("aria-label")
        if not shown.startswith(film[step].title):
            raise RuntimeError(f"the slider is at step {step}, but the picture is {shown!r}")
    page.close()
    return Shown(num_blocks, steps, nothing)
