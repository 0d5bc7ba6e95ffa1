"""The report at the end of a run: the texts and their metrics."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import mean

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mini_vllm import EngineConfig, Lineup, RequestOutput
from mini_vllm_labs.cli.stages import name
from mini_vllm_labs.pictures.terminal.charts import facts_table
from mini_vllm_labs.pictures.terminal.console import chip_style
from mini_vllm_labs.pictures.terminal.step_view import FAINT, STRONG
from mini_vllm_labs.runs.traces.run_state import RunState
from mini_vllm_labs.runs.workloads.ablation import END, ablation_lineups, run_lineup
from mini_vllm_labs.runs.workloads.simulated_time import StepCost
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest


def milliseconds(seconds: float | None) -> str:
    """Return seconds as milliseconds, or a dash for None."""
    return "-" if seconds is None else f"{1000 * seconds:.1f}"


def texts(state: RunState, outputs: Sequence[RequestOutput]) -> RenderableType:
    parts: list[RenderableType] = []
    for output in outputs:
        index, letter = state.info.index(output.request_id), state.info.label(output.request_id)
        head = Text.assemble((f" {letter} ", chip_style(index)), " ", (state.info.titles[output.request_id], STRONG))
        parts += [head, Padding(Text(output.outputs[0].text.strip()), (0, 0, 0, 4))]
    return Group(*parts)


def per_request(state: RunState, outputs: Sequence[RequestOutput]) -> Table:
    """Return one row of numbers per request. Times are in milliseconds."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=FAINT)
    for heading in ("", "prompt", "hit", "output", "first token", "per token", "preempted", "ended by"):
        table.add_column(heading, justify="left" if heading in ("", "ended by") else "right")
    for output in outputs:
        metrics, index = output.metrics, state.info.index(output.request_id)
        table.add_row(
            Text(f" {state.info.label(output.request_id)} ", chip_style(index)),
            str(len(output.prompt_token_ids)),
            str(metrics.num_cached_tokens),
            str(metrics.num_output_tokens),
            milliseconds(metrics.time_to_first_token),
            milliseconds(metrics.inter_token_latency),
            str(metrics.num_preemptions),
            str(output.outputs[0].finish_reason),
        )
    return table


def phase_by_phase(
    lineup: Lineup, outputs: Sequence[RequestOutput], pool: EngineConfig, max_tokens: int
) -> RenderableType:
    """Return what each of phases 1 to 5 changes for these requests in one pool, in simulated time."""
    requests = [
        TimedRequest(
            0.0,
            one.request_id,
            [END + 1 + token % 900 for token in one.prompt_token_ids],  # the fake model has fewer tokens
            max_tokens,
            output_len=one.metrics.num_output_tokens,
        )
        for one in outputs
    ]
    table = Table(box=None, padding=(0, 2, 0, 0), header_style=FAINT)
    for heading in ("phases", "at once", "never end", "tokens computed", "seconds"):
        table.add_column(heading, justify="left" if heading == "phases" else "right")
    # Before phase 5, the budget must hold a whole prompt, so every stage gets a budget of that size.
    config = replace(pool, max_num_batched_tokens=pool.max_model_len or 0, check_invariants=False)
    for stage in ablation_lineups(replace(lineup, speculation="absent", async_scheduling="absent")):
        found = run_lineup(stage, requests, config)
        ends = ("-", "-") if found.num_stalled else (f"{found.num_computed_tokens:,}", f"{found.seconds:.2f}")
        table.add_row(name(stage), str(found.most_running), str(found.num_stalled or "-"), *ends)
    memory, cost = f"{(pool.num_gpu_blocks or 1) - 1} blocks of {pool.block_size}", StepCost()
    clock = f"a step takes {cost.per_step * 1e3:g} ms and a token {cost.per_token * 1e6:g} us"
    return Group(Text(f"These requests in {memory}, phase by phase, if {clock}:", FAINT), table)


def totals(state: RunState, outputs: Sequence[RequestOutput], seconds: float) -> Table:
    """Return the totals of the run; `seconds` is the engine's own time."""
    num_output = sum(output.metrics.num_output_tokens for output in outputs)
    first = [t for output in outputs if (t := output.metrics.time_to_first_token) is not None]
    between = [t for output in outputs if (t := output.metrics.inter_token_latency) is not None]
    return facts_table(
        {
            "steps": f"{len(state.blocks_in_use)} in {seconds:.2f} s, without pauses and drawing",
            "output tokens": f"{num_output}, {num_output / max(seconds, 1e-9):,.0f} per second",
            "computed tokens": f"{state.num_computed_tokens}, of which {state.num_recomputed_tokens} recomputed",
            "prefix cache": f"{state.num_hits} hits, {state.num_hit_tokens} tokens not computed ({state.hit_rate:.0%})",
            "preemptions": f"{state.num_preemptions}",
            "chunked prompts": f"{len(state.chunked)} of {len(state.info.titles)}",
            "time to first token": f"{milliseconds(mean(first or [0]))} ms on average",
            "inter-token latency": f"{milliseconds(mean(between or [0]))} ms on average",
        }
    )
