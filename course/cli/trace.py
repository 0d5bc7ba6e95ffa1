"""`mini-vllm trace`: the step table of a toy workload, or of a trace that was written before."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from course.terminal.console import fail, friendly, make_console, whose_code
from course.terminal.learner_lineup import lineup_to_run
from course.terminal.options import (
    AdmissionGuard,
    BlockSize,
    CheckInvariants,
    EnableChunkedPrefill,
    EnablePrefixCaching,
    LineupText,
    LongPrefillTokenThreshold,
    MaxModelLen,
    MaxNumBatchedTokens,
    MaxNumSeqs,
    NumGpuBlocks,
    SchedulingPolicy,
    engine_config,
)
from course.terminal.step_table import step_table, totals
from course.traces.trace_file import read_trace, write_trace
from course.workloads.fallbacks import make_possible
from course.workloads.small_workload import SMALL_POOL, Run, make_workload
from mini_vllm.core.invariants import InvariantError
from mini_vllm.core.step_record import StepRecord
from mini_vllm.engine.errors import StalledError


@friendly
def trace(
    lineup: LineupText = None,
    seed: Annotated[int, typer.Option(help="Another seed, another workload.")] = 0,
    requests: Annotated[int, typer.Option(min=1, help="How many requests.")] = 8,
    steps: Annotated[str | None, typer.Option(metavar="A-B", help="Print these steps only.")] = None,
    jsonl: Annotated[Path | None, typer.Option(help="Write the trace here too, one step per line.")] = None,
    read: Annotated[Path | None, typer.Option(help="Print this trace instead (.jsonl or .jsonl.gz).")] = None,
    name: Annotated[str | None, typer.Option(help="With --read: which scenario of a recorded file.")] = None,
    max_num_seqs: MaxNumSeqs = None,
    max_num_batched_tokens: MaxNumBatchedTokens = None,
    long_prefill_token_threshold: LongPrefillTokenThreshold = None,
    max_model_len: MaxModelLen = None,
    block_size: BlockSize = None,
    num_gpu_blocks: NumGpuBlocks = None,
    enable_prefix_caching: EnablePrefixCaching = None,
    enable_chunked_prefill: EnableChunkedPrefill = None,
    admission_guard: AdmissionGuard = None,
    scheduling_policy: SchedulingPolicy = None,
    check_invariants: CheckInvariants = None,
) -> None:
    """Print what every step decided, on a small toy workload without torch, or from a file."""
    console = make_console()
    budget: int | None
    ended_by: StalledError | InvariantError | None = None
    if read is not None:
        try:
            records, budget = read_trace(read, name)
        except OSError as error:
            fail(f"{read} cannot be read: {error.strerror or error}", 2)
    else:
        team = replace(lineup_to_run(lineup, console), runner="absent")
        defaults, remarks = make_possible(SMALL_POOL, team)
        config = engine_config(
            defaults,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=max_num_batched_tokens,
            long_prefill_token_threshold=long_prefill_token_threshold,
            max_model_len=max_model_len,
            block_size=block_size,
            num_gpu_blocks=num_gpu_blocks,
            enable_prefix_caching=enable_prefix_caching,
            enable_chunked_prefill=enable_chunked_prefill,
            admission_guard=admission_guard,
            policy=scheduling_policy,
            check_invariants=check_invariants,
        )
        budget = config.max_num_batched_tokens
        console.print("\n".join([whose_code(team), *remarks]), markup=False)
        records, ended_by = run_to_the_end(Run(make_workload(seed, requests), config, team))
    if jsonl is not None:
        write_trace(jsonl, records, budget)
    if records or ended_by is None:
        first, last = step_range(steps, len(records))
        console.print(step_table(records, budget, range(first, last + 1)))
        console.print(f"\n{totals(records)}", markup=False)
    if ended_by is not None:
        when = "an invariant broke in step" if isinstance(ended_by, InvariantError) else "stalled before step"
        fail(f"{when} {len(records)}: {ended_by}", 1)


def run_to_the_end(run: Run) -> tuple[list[StepRecord], StalledError | InvariantError | None]:
    """Return the trace of a run, and the error that ended it early if nothing moved or nothing added up any more."""
    records: list[StepRecord] = []
    try:
        while not run.finished:
            records.append(run.step())
    except (StalledError, InvariantError) as error:
        return records, error
    return records, None


def step_range(text: str | None, num_steps: int) -> tuple[int, int]:
    """Read `A-B`, `A-`, `-B` or `A`. Raises `ValueError` if that is no range of the trace's steps."""
    if text is None:
        return 0, num_steps - 1
    start, dash, end = text.partition("-")
    if not all(part.isdecimal() or (dash and not part) for part in (start, end or start)) or not start + end:
        raise ValueError(f"--steps must look like 3-7, 3-, -7 or 3; got {text!r}")
    first = int(start or 0)
    last = int(end) if end else num_steps - 1 if dash else first
    if first > last or first >= num_steps:
        raise ValueError(f"--steps {text}: the trace has steps 0 to {num_steps - 1}")
    return first, last
