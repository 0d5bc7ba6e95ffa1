"""`mini-vllm trace`: the step table of a toy workload, or of a trace that was written before."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from mini_vllm.cli.absences import make_possible
from mini_vllm.cli.console import fail, friendly, make_console, whose_code
from mini_vllm.cli.options import (
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
from mini_vllm.cli.yours import lineup_to_run
from mini_vllm.engine import StalledError
from mini_vllm.invariants import InvariantError
from mini_vllm.trace import StepRecord
from mini_vllm.views.trace_file import read_trace, write_trace
from mini_vllm.workload import SMALL_POOL, Run, make_workload


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


def step_table(records: list[StepRecord], budget: int | None, shown: range) -> Table:
    """Return one row for each step in `shown`."""
    table = Table(
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        caption="r0:8p 8 tokens of a prompt, +4h 4 more found in the cache, r0:1 one decoded token, * resumed; "
        "preempted: r1 for r0, or r1 alone if it was its own victim; evicted: cached blocks handed out again",
        caption_justify="left",
    )
    for heading, justify in (("step", "right"), ("scheduled", "left"), ("total", "right")):
        table.add_column(heading, justify=justify, overflow="fold", ratio=1 if heading == "scheduled" else None)  # type: ignore[arg-type]
    table.add_column("preempted", overflow="fold")
    for heading in ("evicted", "free"):
        table.add_column(heading, justify="right")
    table.add_column("finished", overflow="fold")
    outputs: set[str] = set()
    for number, record in enumerate(records):
        if number in shown:
            table.add_row(*step_row(record, budget, outputs))
        outputs |= {request_id for request_id, _ in record["output"]}
    return table


def totals(records: list[StepRecord]) -> str:
    """Return what all steps come to: the numbers that two runs are compared by."""
    tokens = [record["total"] for record in records]
    num_hit = sum(share.get("hit", 0) for record in records for share in record["scheduled"])
    num_preemptions, num_evicted = (sum(len(record[what]) for record in records) for what in ("preempted", "evicted"))
    return (
        f"All {len(records)} steps: {sum(tokens):,} tokens computed, at most {max(tokens, default=0):,} in a step, "
        f"{num_hit:,} found in the cache; preemptions: {num_preemptions}; blocks evicted: {num_evicted}."
    )


def step_row(record: StepRecord, budget: int | None, outputs: set[str]) -> list[str]:
    """Return the cells of one step. `outputs` are the requests that have said something before it."""
    shares = (share_text(record, index, outputs) for index in range(len(record["scheduled"])))
    return [
        str(record["step"]),
        " ".join(shares) or "nobody",
        f"{record['total']}/{budget}" if budget else str(record["total"]),
        " ".join(preemption_text(*entry) for entry in record["preempted"]),
        str(len(record["evicted"]) or ""),
        str(record["free_after_schedule"]),
        " ".join(request_id for request_id, *_ in record["finished"]),
    ]


def share_text(record: StepRecord, index: int, outputs: set[str]) -> str:
    """Return one request's share: id, tokens, kind."""
    share = record["scheduled"][index]
    hit = f"+{share['hit']}h" if share.get("hit") else ""
    resumed = "*" if share["kind"] == "resumed" else ""
    decodes = share["kind"] == "running" and share["n"] == 1 and share["id"] in outputs
    return f"{share['id']}{resumed}:{share['n']}{'' if decodes else 'p'}{hit}"


def preemption_text(victim: str, cause: str, num_tokens: int) -> str:
    """Return who was preempted for whom, and the tokens that went back to the budget."""
    returned = f" (-{num_tokens})" if num_tokens else ""
    return f"{victim}{returned}" if victim == cause else f"{victim} for {cause}{returned}"
