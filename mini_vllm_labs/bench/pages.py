"""Measures page size and, in headless Chromium, the delay between moving a slider or knob and seeing the picture.

The benchmark steps through the time machine with pools of two sizes, and through the replay on the live page. The
benchmark also drags the knobs of the notebooks' panels, and the chunking dial's knob with each workload.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from urllib.request import Request, urlopen

from mini_vllm.assembly.build import build_engine
from mini_vllm.assembly.lineup import CHECKOUT, parse_lineup
from mini_vllm.config import EngineConfig
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm_labs.bench.case import Case, Side
from mini_vllm_labs.notebook import Lab, bench, engine_panel
from mini_vllm_labs.pictures.browser.bare_page import open_widget
from mini_vllm_labs.pictures.calculator import calculator
from mini_vllm_labs.pictures.chunking_dial import chunking_dial
from mini_vllm_labs.pictures.film import Film
from mini_vllm_labs.pictures.panels import Panel
from mini_vllm_labs.pictures.show import player
from mini_vllm_labs.pictures.time_machine import time_machine
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.runs.workloads.small_workload import SMALL_POOL, make_workload
from mini_vllm_labs.serving.server import running_server

RECORDED = CHECKOUT / "labs" / "observed" / "all_phases.jsonl"
POOLS = (20, 2000)
WORKLOADS = ("mixed", "documents", "burst", "chat")
REPLAY_MS, FIRST_MS, FINAL_MS = 30.0, 100.0, 500.0
"""Maxima for the medians: a replayed step, the first picture after a knob's last move, and the final one."""
SECONDS, SETTLED_MS = 120, 1_000
MEASURING = "() => {" + Path(__file__).with_suffix(".js").read_text(encoding="utf-8") + "}"
READY = "() => { const { answered, ticket } = document.getElementById('host').dataset; return answered === ticket; }"


def delays(page: str, first: list[float], final: float | None, target: float, size: int) -> Case:
    """Build a case from the delays, in milliseconds, of each move's first picture and the last move's final picture.

    `final` is None if the first picture is complete. `target` is the highest acceptable median of `first`. `size` is
    the number of bytes that the page loads.
    """
    sides = {"first picture": Side(first)} | ({} if final is None else {"final picture": Side([final])})
    aimed = f"at most {target:.0f} ms at first" + ("" if final is None else f", {FINAL_MS:.0f} ms at last")
    met = median(first) <= target and (final or 0.0) <= FINAL_MS
    return Case(page, "ms", "", sides, [f"{size / 1024:,.0f} KiB; aim: {aimed}: {'met' if met else 'missed'}"])


@dataclass(frozen=True)
class WidgetKnob:
    """The knob called `name` on the panel that `make` returns."""

    panel: str
    name: str
    make: Callable[[], Any]


def measure_pages(browser: Any, num_moves: int, num_requests: int) -> Iterator[Case]:
    """Yield the delays of each page; the dial simulates `num_requests` requests per change."""
    for num_blocks, film in films():
        yield step_through(browser, f"time machine, {num_blocks:,} blocks", film, num_moves)
    yield replay(browser, num_moves)
    for knob in knobs(num_requests):
        yield drag(browser, knob, num_moves)


def films() -> Iterator[tuple[int, Film]]:
    """Yield (number of blocks, time machine over the recorded run) for the run's own pool and a larger one."""
    recording = Recording.read(RECORDED)
    for num_blocks in POOLS:
        yield num_blocks, time_machine(Recording(replace(recording.info, num_blocks=num_blocks + 1), recording.steps))


def knobs(num_requests: int) -> Iterator[WidgetKnob]:
    """Yield the knobs of the notebooks' panels. The lab uses the reference engine."""
    lab = Lab(5, "solution")
    yield WidgetKnob("calculator", "gpu_memory_utilization", calculator)
    yield WidgetKnob("policy bench, SLO", "time_to_first_token", lambda: bench(lab))
    yield WidgetKnob("policy bench, load", "load", lambda: bench(lab))
    config, workload = replace(SMALL_POOL, max_model_len=64), make_workload(seed=0, num_requests=8)
    yield WidgetKnob("engine panel", "num_gpu_blocks", lambda: engine_panel(lab, workload, config, step=6))
    for name in WORKLOADS:
        yield WidgetKnob(f"dial, {name}", "max_num_batched_tokens", partial(dial, name, num_requests))


def dial(workload: str, num_requests: int) -> Panel:
    made = chunking_dial(num_requests=num_requests)
    made.set(workload=workload)
    return made


def size_of(widget: Any) -> int:
    """Return the bytes of a widget's code, style and state in a notebook or an exported page."""
    state = {name: getattr(widget, name) for name in widget.keys if name not in ("layout", "tabbable", "tooltip")}
    return len(json.dumps({name: value for name, value in state.items() if name != "comm"}).encode())


def step_through(browser: Any, name: str, film: Film, num_moves: int) -> Case:
    """Step through a film. Raises `RuntimeError` if a picture does not match its step."""
    widget = player(film)
    page = open_widget(browser, widget)
    page.evaluate(MEASURING)
    times = []
    for number in range(1, num_moves + 1):
        step = 5 * number % len(film)
        times.append(float(page.evaluate("delayOfStep", step)))
        shown = page.locator(".mvw-picture svg").get_attribute("aria-label")
        if not shown.startswith(film[step].title):
            raise RuntimeError(f"the slider is at step {step}, but the picture shows {shown!r}")
    page.close()
    return delays(name, times, None, FIRST_MS, size_of(widget))


def replay(browser: Any, num_moves: int) -> Case:
    """Serve eight prompts on the server's engine, then step back and forth through its steps."""
    config = EngineConfig(max_num_seqs=8, max_num_batched_tokens=64, num_gpu_blocks=100)
    with running_server(AsyncLLM(build_engine(config, parse_lineup("solution:1-5")))) as server:
        page, sizes = browser.new_page(viewport={"width": 1280, "height": 800}), list[int]()
        page.on("response", lambda answer: sizes.append(int(answer.headers.get("content-length", 0))))
        page.goto(server.address)
        page.wait_for_selector("#connection[data-state=open]")
        body = {"prompt": ["Once upon a time"] * 8, "max_tokens": 60, "ignore_eos": True}
        ask = Request(f"{server.base_url}/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        urlopen(ask).close()
        page.wait_for_function("() => document.getElementById('at').max >= 50")
        page.evaluate(MEASURING)
        page.evaluate("delayOfReplay", 1)  # the page no longer follows the engine
        times = [float(page.evaluate("delayOfReplay", 2 + 7 * number % 45)) for number in range(num_moves)]
        page.close()
    return delays("live page, replay", times, None, REPLAY_MS, sum(sizes))


def drag(browser: Any, knob: WidgetKnob, num_moves: int) -> Case:
    """Drag a knob from left to right with the mouse. Raises `RuntimeError` if a move produces no picture."""
    widget = knob.make()
    page = open_widget(browser, widget, is_answered=True)
    slider = page.locator(f'[data-knob="{knob.name}"]')
    page.wait_for_timeout(300)
    page.wait_for_function(READY)
    page.evaluate(MEASURING)
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
    final = settled(page)
    page.close()
    return delays(knob.panel, times[1:], final if final > times[-1] else None, FIRST_MS, size_of(widget))


def wait_for(page: Any, count: int) -> None:
    """Wait until `count` moves have been painted. Raises `RuntimeError` if a move is not painted in time."""
    from playwright.sync_api import TimeoutError as NotPaintedError

    try:
        page.wait_for_function("(count) => painted.length >= count", arg=count, timeout=1e3 * SECONDS)
    except NotPaintedError as error:
        raise RuntimeError(f"the page did not respond to move {count} of the knob within {SECONDS} seconds") from error


def settled(page: Any) -> float:
    """Return the milliseconds from the last move to the final picture, which a panel requests once it is at rest."""
    newest = -1.0
    while newest != (newest := float(page.evaluate("newest"))):
        page.wait_for_timeout(SETTLED_MS)
        page.wait_for_function(READY, timeout=1e3 * SECONDS)
    return newest
