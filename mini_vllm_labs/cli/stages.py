"""`mini-vllm stages` shows the gain from each phase, on the same workload."""

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from mini_vllm.assembly.lineup import ALL_NAMES, Lineup, lineup_from_env, parse_lineup
from mini_vllm.assembly.parts import Impl
from mini_vllm_labs.pictures.terminal.console import friendly, make_console, whose_code
from mini_vllm_labs.pictures.terminal.options import AsJson, LineupText
from mini_vllm_labs.pictures.terminal.progress import reported
from mini_vllm_labs.pictures.terminal.stage_sentences import describe, mean_ms, p95_ms
from mini_vllm_labs.pictures.terminal.step_view import FAINT
from mini_vllm_labs.runs.starter_status import unwritten_tasks
from mini_vllm_labs.runs.workloads.ablation import (
    MAX_TOKENS,
    SETTINGS,
    LineupResult,
    ablation_lineups,
    ablation_requests,
    run_lineup,
)
from mini_vllm_labs.runs.workloads.simulated_time import StepCost

HEADINGS = (
    *("phases", "steps", "at\nonce", "mem.\nheld", "stalled", "pre-\nempted", "com-\nputed", "again", "hits"),
    *("TTFT\nmean", "TTFT\np95", "ITL\nmean", "ITL\np95"),
)
ROOMY = 92
LEGEND = (
    "TTFT: time to first token, ITL: inter-token latency, both in ms of simulated time. computed, again: tokens of "
    "all steps, and the number recomputed."
)
ALL_PHASES = range(1, len(ALL_NAMES) + 1)
COURSE = "1-6"


@friendly
def stages(
    lineup: LineupText = None,
    seed: Annotated[int, typer.Option(help="Seed of the workload.")] = 0,
    real: Annotated[bool, typer.Option("--real", help="Also run phase 6, on the embedded model. Loads torch.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the gain from each phase: one workload on phases 1, 1-2, ... 1-5.

    Times are simulated. The lineup's electives (solution:1-8) come last, without phase 6 unless --real is given.

    Stops at the first phase of the lineup that is not written.
    """
    whole = lineup_from_env() if lineup is None else parse_lineup(lineup)
    if real and whole.runner == "absent":
        raise ValueError("--real needs phase 6 in the lineup")
    console = make_console(stderr=as_json)
    found, next_task = run_all(ablation_lineups(whole, 6 if real else 5), seed)
    if as_json:
        typer.echo(json.dumps(as_record(found, next_task, whole, seed)))
        return
    console.print(whose_code(whole), markup=False)
    console.print(conditions(found), markup=False, style=FAINT)
    if found:
        console.print(stage_table(found, roomy=console.width >= ROOMY))
        console.print(LEGEND, style=FAINT)
    console.print()
    console.print(sentences(found, mentions_phase_6=real or next_task is not None))
    if next_task is not None:
        console.print(f"{next_task}: not written yet. Write it next, then run this again.", markup=False)


def run_all(lineups: list[Lineup], seed: int) -> tuple[list[LineupResult], str | None]:
    """Run the stages in order, up to the first unwritten phase; return them, and that phase's next task."""
    requests, found = ablation_requests(seed), []
    for number, lineup in enumerate(lineups, start=1):
        try:
            with reported(f"Phases {name(lineup)} (run {number} of {len(lineups)})"):
                found.append(run_lineup(lineup, requests))
        except NotImplementedError as error:
            phase = max(phase for phase in ALL_PHASES if lineup[phase] != "absent")
            tasks = unwritten_tasks(phase) if lineup[phase] == "starter" else []
            return found, tasks[0] if tasks else str(error)
    return found, None


def name(lineup: Lineup) -> str:
    """Return which phases are present: `1`, `1-4`, `1,3-5`."""
    present: list[Impl] = ["absent" if lineup[phase] == "absent" else "starter" for phase in ALL_PHASES]
    text = str(Lineup(*present))
    return COURSE if text == "starter" else text.replace("starter:", "")


def conditions(found: list[LineupResult]) -> str:
    num_blocks, size, cost = (SETTINGS.num_gpu_blocks or 1) - 1, SETTINGS.block_size, StepCost()
    return (
        f"All stages: the same {len(ablation_requests())} requests with the same arrival times, up to {MAX_TOKENS} "
        f"output tokens each; memory for {num_blocks * size:,} tokens; budget {SETTINGS.max_num_batched_tokens:,}, a "
        f"whole prompt, because before phase 5 prompts are not chunked. Phase 5 adds its threshold of "
        f"{SETTINGS.long_prefill_token_threshold} tokens and its admission guard. A hypothetical small GPU: "
        f"{cost.per_step * 1e3:g} ms a step, {cost.per_token * 1e6:g} us a token, "
        f"{cost.per_context_token * 1e6:g} us a token of context."
    )


def sentences(found: list[LineupResult], mentions_phase_6: bool) -> Table:
    lines = Table.grid(padding=(0, 2, 0, 0))
    lines.add_column(no_wrap=True)
    lines.add_column()
    for index, stage in enumerate(found):
        lines.add_row(name(stage.lineup), Text(describe(stage, found[index - 1] if index else None, found[0])))
    if not mentions_phase_6:
        lines.add_row(
            "1-6", "Phase 6 changes the model and no decision, so it saves no simulated time: --real runs it too."
        )
    return lines


def stage_table(found: list[LineupResult], *, roomy: bool) -> Table:
    """Return one row per stage. The table fits in 80 columns unless `roomy` is set."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1 if roomy else 0, 0, 0), pad_edge=False)
    for heading in HEADINGS:
        table.add_column(heading, justify="left" if heading == "phases" else "right", no_wrap=True)
    for stage in found:
        ttft, itl = stage.first_token_latencies, stage.inter_token_latencies
        times = [f"{mean_ms(ttft):.0f}", f"{p95_ms(ttft):.0f}", f"{mean_ms(itl):.1f}", f"{p95_ms(itl):.1f}"]
        table.add_row(
            name(stage.lineup),
            str(stage.num_steps),
            str(stage.most_running),
            f"{stage.peak_held:.0%}",
            str(stage.num_stalled or ""),
            str(stage.num_preemptions),
            f"{stage.num_computed_tokens:,}",
            f"{stage.num_recomputed_tokens:,}",
            f"{stage.hit_rate:.0%}",
            *(["-"] * 4 if stage.num_stalled else times),
        )
    return table


def as_record(found: list[LineupResult], next_task: str | None, whole: Lineup, seed: int) -> dict[str, Any]:
    """Return the numbers as a JSON object. Latencies are in milliseconds of simulated time."""
    return {
        "lineup": str(whole),
        "seed": seed,
        "settings": asdict(SETTINGS),
        "seconds_per": asdict(StepCost()),
        "next": next_task,
        "stages": [stage_record(stage) for stage in found],
    }


def stage_record(stage: LineupResult) -> dict[str, Any]:
    """Return one stage. After a stall, the latencies cover only the tokens before it."""
    ttft, itl = stage.first_token_latencies, stage.inter_token_latencies
    counters = (
        *("num_requests", "num_stalled", "num_steps", "most_running", "peak_held", "mean_empty", "num_preemptions"),
        *("num_computed_tokens", "num_recomputed_tokens", "hit_rate"),
    )
    return {
        "phases": name(stage.lineup),
        "simulated_seconds": stage.seconds,
        **{counter: getattr(stage, counter) for counter in counters},
        "time_to_first_token": {"mean": mean_ms(ttft), "p95": p95_ms(ttft)},
        "inter_token_latency": {"mean": mean_ms(itl), "p95": p95_ms(itl)},
    }
