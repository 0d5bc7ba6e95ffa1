"""The picture of `mini-vllm demo` in a terminal."""

import io
import re

from rich.console import Console

from cli.demo import run_info
from cli.demo_script import plan_demo
from course.terminal.step_view import render_step
from course.traces.run_state import RunInfo, RunState, fold
from mini_vllm import LLM, SamplingParams, parse_lineup

WIDTH = 92


def demo() -> str:
    """Return the demo's most interesting step as SVG."""
    return svg_of(interesting_step(*demo_run()))


def demo_run() -> tuple[RunInfo, LLM]:
    """Run the demo; its steps are in the engine's recorder."""
    lineup = parse_lineup("solution")
    plan = plan_demo(lineup)
    llm = LLM(config=plan.config, lineup=lineup, record=True)
    llm.chat(plan.conversations, SamplingParams(max_tokens=plan.max_tokens))
    return run_info(llm, plan), llm


def interesting_step(info: RunInfo, llm: LLM) -> RunState:
    """Return the state after the first step that computes a chunk of a prompt beside a hit and a decode."""
    steps = llm.engine.recorder.steps
    for index, record in enumerate(steps):
        state = fold(info, steps[: index + 1])
        kinds = {state.status(share["id"]) for share in record["scheduled"]}
        if any(share.get("hit") for share in record["scheduled"]) and kinds == {"prefill", "decode"}:
            return state
    raise ValueError("the demo has no step with a hit, a prefill and a decode")


def svg_of(state: RunState) -> str:
    """Draw the state as a terminal shows it. Fonts are the reader's own: nothing is fetched."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(render_step(state, WIDTH - 2, "mini-vllm demo"))
    svg = console.export_svg(title="mini-vllm demo", unique_id="demo")
    svg = re.sub(r"@font-face\s*{.*?}\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace")
    return re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
