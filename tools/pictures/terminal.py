"""The picture of `mini-vllm demo` in a terminal."""

import io
import re

from rich.console import Console

from cli.demo import plan_demo, run_info
from course.terminal.step_view import render_step
from course.traces.recording import Recording
from course.traces.run_state import RunState
from course.views.time_machine.machine import states
from course.views.time_machine.queues import record_of
from mini_vllm import LLM, SamplingParams, parse_lineup

WIDTH = 92


def demo() -> str:
    """Return the demo's most interesting step as SVG."""
    lineup = parse_lineup("solution")
    plan = plan_demo(lineup)
    llm = LLM(config=plan.config, lineup=lineup, record=True)
    llm.chat(plan.conversations, SamplingParams(max_tokens=plan.max_tokens))
    return svg_of(interesting_state(Recording(run_info(llm, plan), llm.engine.recorder.steps)))


def interesting_state(recording: Recording) -> RunState:
    """Return the state in the first step that computes a chunk of a prompt beside a hit and a decode."""
    for state in states(recording):
        shares = record_of(state)["scheduled"]
        kinds = {state.status(share["id"]) for share in shares}
        if any(share.get("hit") for share in shares) and kinds == {"prefill", "decode"}:
            return state
    raise ValueError("the demo has no step with a hit, a prefill and a decode")


def svg_of(state: RunState) -> str:
    """Draw the state as a terminal shows it, in fonts that the reader has: nothing is fetched."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(render_step(state, WIDTH - 2, "mini-vllm demo"))
    svg = console.export_svg(title="mini-vllm demo", unique_id="demo")
    svg = re.sub(r"@font-face\s*{.*?}\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace("Fira Code, monospace", "ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace")
    return re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
