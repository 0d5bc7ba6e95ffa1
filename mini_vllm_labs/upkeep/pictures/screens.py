"""Takes screenshots at a preemption: a notebook in JupyterLab, the page of `mini-vllm serve`, and the terminal."""

import io
import re
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
from rich.console import Console

from mini_vllm import LLM, EngineConfig, SamplingParams, parse_lineup
from mini_vllm.assembly.build import build_engine
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm_labs.cli.demo import plan_demo, run_info
from mini_vllm_labs.pictures.browser.chromium import headless_chromium
from mini_vllm_labs.pictures.terminal.step_view import render_step
from mini_vllm_labs.pictures.time_machine.machine import states
from mini_vllm_labs.pictures.time_machine.queues import record_of
from mini_vllm_labs.runs.traces.recording import Recording
from mini_vllm_labs.runs.traces.run_state import RunState
from mini_vllm_labs.serving.server import running_server
from mini_vllm_labs.upkeep.jupyter.server import Screen, copy_course, jupyterlab, write_notebook

CELLS = (
    "from mini_vllm_labs.notebook import Lab, watch\n"
    "from mini_vllm_labs.runs.workloads.small_workload import make_workload\n\n"
    "lab = Lab(phase=5)\n"
    "watch(lab.play(make_workload(seed=0, num_requests=8)), step=6)",
)
NOTEBOOK = "notebooks/03_preemption.ipynb"
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
CONFIG = EngineConfig(num_gpu_blocks=73, max_num_seqs=12, max_num_batched_tokens=128)
CHATS = (
    "Tell me a story about Mina and a kite.",
    "What is the capital of Norway?",
    "Tell me a story about Ben and a drum.",
)
NOTES = "Notes: The kite of Mina is red. The drum of Ben is blue. The map of Ada is gray. The boat of Finn is green. "
NAMES, THINGS = ("Mina", "Ben", "Ada", "Finn", "Lily", "Omar"), ("kite", "drum", "map", "boat", "hat", "bell")
SIZE = {"width": 1280, "height": 800}
WIDTH = 92


def screens() -> dict[str, bytes]:
    """Return, for each theme, a PNG of the time machine in JupyterLab as it follows the preempted request."""
    with TemporaryDirectory() as folder, headless_chromium() as browser:
        course, home = copy_course(Path(folder, "labs")), Path(folder, "jupyter")
        write_notebook(course / NOTEBOOK, CELLS)
        with jupyterlab(course, home, lineup="solution") as server:
            screen = Screen(browser, server, width=960, height=1070, sharpness=1.15).open(NOTEBOOK).run_all()
            if failures := screen.failures():
                raise RuntimeError(f"a cell failed: {failures}")
            player = screen.page.locator(".mvw")
            player.locator('[data-about="request:3"] [data-request]').click()
            screen.page.mouse.move(0, 0)
            player.evaluate("(widget) => widget.blur()")
            screen.page.locator(".jp-Cell").first.evaluate("(cell) => cell.scrollIntoView({ block: 'start' })")
            taken = {}
            for name, theme in THEMES.items():
                screen.theme(theme)
                taken[f"jupyterlab_{name}"] = screen.page.screenshot()
            screen.close()
    return taken


def serving_screens() -> dict[str, bytes]:
    """Return one PNG per theme. All requests arrive while the engine is paused; after that, it runs step by step."""
    llm = AsyncLLM(build_engine(CONFIG, parse_lineup("solution")))
    with running_server(llm) as server, headless_chromium() as browser:
        page = browser.new_page(viewport=SIZE, color_scheme="light", device_scale_factor=1.1)
        page.goto(server.address)
        page.wait_for_selector("#connection[data-state=open]")
        page.locator("#pause").click()
        page.wait_for_selector("body.paused")
        num_asked = 0
        for number, question in enumerate(CHATS):
            if number:
                page.click("#add-chat")
            page.fill("#message", question)
            page.click("#send")
            num_asked = wait_for_arrivals(page, num_asked + 1)
        for number, (name, thing) in enumerate(zip(NAMES * 3, THINGS * 3, strict=True)):
            question = f"{NOTES * (number % 2)}Tell me a story about {name} and a {thing}."
            threading.Thread(target=ask, args=(server.base_url, question), daemon=True).start()
            num_asked = wait_for_arrivals(page, num_asked + 1)
        while "preempted" not in page.locator("#sentence").text_content():
            before = page.locator("#picture").get_attribute("data-step")
            page.locator("#step").click()
            page.wait_for_selector(f"#picture[data-step]:not([data-step='{before}'])")
        page.add_style_tag(content=".figures { display: none; }")  # a paused engine's timings are meaningless
        page.locator("#tabs [role=tab]").first.click()
        page.mouse.move(0, 0)
        taken = {}
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            taken[f"serving_{theme}"] = page.screenshot()
    return taken


def ask(base_url: str, question: str) -> None:
    body = {"messages": [{"role": "user", "content": question}], "max_tokens": 120}
    with httpx.Client(timeout=None) as client:
        client.post(f"{base_url}/chat/completions", json=body)


def wait_for_arrivals(page: Any, number: int) -> int:
    """Wait until `number` requests have arrived at the paused engine."""
    page.get_by_text(f"paused, {number} arrived since").wait_for()
    return number


def demo() -> str:
    """Return the demo's most interesting step as SVG."""
    lineup = parse_lineup("solution")
    plan = plan_demo(lineup)
    llm = LLM(config=plan.config, lineup=lineup, record=True)
    llm.chat(plan.conversations, SamplingParams(max_tokens=plan.max_tokens))
    return svg_of(interesting_state(Recording(run_info(llm, plan), llm.engine.recorder.steps)))


def interesting_state(recording: Recording) -> RunState:
    """Return the state in the first step with a prefill, a prefix hit and a decode."""
    for state in states(recording):
        shares = record_of(state)["scheduled"]
        kinds = {state.status(share["id"]) for share in shares}
        if any(share.get("hit") for share in shares) and kinds == {"prefill", "decode"}:
            return state
    raise ValueError("the demo has no step that contains a hit, a prefill and a decode")


def svg_of(state: RunState) -> str:
    """Draw the state as a terminal would show it, in the reader's own fonts, so that nothing is downloaded."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(render_step(state, WIDTH - 2, "mini-vllm demo"))
    svg = console.export_svg(title="mini-vllm demo", unique_id="demo")
    svg = re.sub(r"@font-face\s*{.*?}\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace")
    return re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
