"""Make the pictures of the docs: `python -m tools.pictures` writes `docs/pictures/*.svg`."""

import io
import re
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from mini_vllm import LLM, SamplingParams, parse_lineup
from mini_vllm.cli.demo import run_info
from mini_vllm.cli.demo_script import plan_demo
from mini_vllm.cli.step_view import render_step
from mini_vllm.simulator.served import Slo
from mini_vllm.views.block_life import block_life
from mini_vllm.views.calculator import Setup, calculator_picture, capacity_of
from mini_vllm.views.chunking_dial import Deployment, Setting, chunking_picture, try_setting
from mini_vllm.views.film import Film
from mini_vllm.views.hash_chain import hash_chain, hits_of
from mini_vllm.views.paged_batch import paged_batch
from mini_vllm.views.picture import Picture
from mini_vllm.views.policy_bench import Contest, hold_contest, policy_picture
from mini_vllm.views.recording import Recording
from mini_vllm.views.run_state import RunInfo, RunState, fold
from mini_vllm.views.time_machine import time_machine
from solutions import phase4_prefix_cache, phase6_gpu_runner

ROOT = Path(__file__).parents[1]
PICTURES, OBSERVED = ROOT / "docs" / "pictures", ROOT / "labs" / "observed"
WIDTH = 92


def demo_run() -> tuple[RunInfo, LLM]:
    """Run the demo; its steps are in the engine's recorder."""
    lineup = parse_lineup("solution")
    plan = plan_demo(lineup)
    llm = LLM(config=plan.config, lineup=lineup, record=True)
    llm.chat(plan.conversations, SamplingParams(max_tokens=plan.max_tokens))
    return run_info(llm, plan), llm


def interesting_step(info: RunInfo, llm: LLM) -> RunState:
    """Return the state after the first step that computes a chunk of a prompt beside a hit and a decode."""
    assert llm.engine.recorder is not None
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


def at_preemption(view: Callable[[Recording], Film]) -> Picture:
    """Return a view of the first step of the recorded run in which somebody is preempted."""
    recording = Recording.read(OBSERVED / "all_phases.jsonl")
    step = next(record["step"] for record in recording.steps if record["preempted"])
    return view(recording)[step]


def three_chains() -> Picture:
    """Return a prompt, one that parts from it in its third block, and the first one again with a salt."""
    prompt = [*range(10, 18), 21, 22, 23, 24, 31, 32]
    prompts = {"A": prompt, "B": [*prompt[:10], 99, *prompt[11:], 33, 34, 35], "C": prompt}
    salts = {"C": "blue"}
    hits = hits_of(prompts, phase4_prefix_cache.HashPrefixCache(4), 4, salts)
    return hash_chain(prompts, 4, phase4_prefix_cache.hash_block, salts=salts, hits=hits)


def smaller_budget() -> Picture:
    """Return what a quarter of the token budget does to waiting."""
    deployment = Deployment()
    before, now = (try_setting(Setting(max_num_batched_tokens=budget), deployment) for budget in (2048, 512))
    return chunking_picture(now, before)


def policies() -> Picture:
    """Return the contest that the policy bench opens with."""
    contest = Contest()
    return policy_picture(contest, hold_contest(contest, parse_lineup("solution")), Slo())


def main() -> None:
    PICTURES.mkdir(parents=True, exist_ok=True)
    pictures = {
        "demo": svg_of(interesting_step(*demo_run())),
        "time_machine": at_preemption(time_machine).svg() + "\n",
        "block_life": at_preemption(block_life).svg() + "\n",
        "hash_chain": three_chains().svg() + "\n",
        "paged_batch": paged_batch(functions=phase6_gpu_runner)[4].svg() + "\n",
        "chunking_dial": smaller_budget().svg() + "\n",
        "calculator": calculator_picture(capacity_of(Setup())).svg() + "\n",
        "policy_bench": policies().svg() + "\n",
    }
    for name, svg in pictures.items():
        path = PICTURES / f"{name}.svg"
        path.write_text(svg, encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
