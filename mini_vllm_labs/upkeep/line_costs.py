"""Measures the cost of recording a run's lines, and how long clicking a line and redrawing a step take.

Run it as `python -m mini_vllm_labs.upkeep.line_costs`.
"""

import time
from collections.abc import Callable

from mini_vllm.assembly.lineup import lineup_from_env
from mini_vllm_labs.fresh.jobs import play_with_lines, play_workload
from mini_vllm_labs.pictures.browser.bare_page import open_widget
from mini_vllm_labs.pictures.browser.chromium import headless_chromium
from mini_vllm_labs.pictures.show import player
from mini_vllm_labs.pictures.time_machine import time_machine
from mini_vllm_labs.runs.workloads.small_workload import SMALL_POOL, make_workload

NUM_REQUESTS = 60
CLICKS = """() => {
  const taken = [], menu = document.querySelector("select[aria-label^='follow'], select[title^='follow']");
  for (const { value } of [...menu.options].filter(({ value }) => value)) {
    const start = performance.now();
    menu.value = value;
    menu.dispatchEvent(new Event("change"));
    document.querySelector(".mvw-source").getBoundingClientRect();
    taken.push(performance.now() - start);
  }
  return taken;
}"""

REDRAWS = """() => {
  const steps = [...Array(model.state.film.frames.length).keys()], best = steps.map(() => Infinity);
  for (const step of [...steps, ...steps, ...steps]) {  // other processes disturb one measurement
    const start = performance.now();
    model.set("step", step);
    document.querySelector(".mvw-picture svg").getBoundingClientRect();
    best[step] = Math.min(best[step], performance.now() - start);
  }
  return best;
}"""


def seconds(run: Callable[[], object]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def main() -> None:
    workload = make_workload(1, NUM_REQUESTS), SMALL_POOL, lineup_from_env()
    plain = min(seconds(lambda: play_workload(*workload)) for _ in range(3))
    traced = min(seconds(lambda: play_with_lines(*workload)) for _ in range(3))
    recording = play_with_lines(*workload).recording
    assert recording.lines is not None
    print(f"a run of {len(recording.steps)} steps: {plain:.2f} s of CPU time, with its lines {traced:.2f} s")
    keys = [(event.subject, event.step) for event in recording.lines.events]
    slowest = 1e3 * max(seconds(lambda key=key: recording.lines.why(*key)) for key in keys)  # type: ignore[misc]
    print(f"{len(keys)} events, Python: at most {slowest:.2f} ms from an event to its line")
    with headless_chromium() as browser:
        page = open_widget(browser, player(time_machine(recording), len(recording.steps) // 2))
        taken, redrawn = page.evaluate(CLICKS), page.evaluate(REDRAWS)
    print(f"{len(taken)} clicks in Chromium: at most {max(taken):.0f} ms from a click to the line in the page")
    print(f"{len(redrawn)} steps in Chromium: at most {max(redrawn):.0f} ms to redraw one, with the reasons")


if __name__ == "__main__":
    main()
