"""`mini-vllm trace` prints the step table of a small workload or of a recorded trace."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mini_vllm.core.invariants import InvariantError
from mini_vllm.core.step_record import StepRecord
from mini_vllm.engine.errors import StalledError
from mini_vllm_labs.pictures.terminal.console import fail, friendly, make_console, whose_code
from mini_vllm_labs.pictures.terminal.engine_options import EngineOptions, engine_config
from mini_vllm_labs.pictures.terminal.learner_lineup import lineup_to_run
from mini_vllm_labs.pictures.terminal.option_groups import with_option_groups
from mini_vllm_labs.pictures.terminal.options import LineupText
from mini_vllm_labs.pictures.terminal.step_table import step_table, totals
from mini_vllm_labs.runs.traces.trace_file import read_trace, write_trace
from mini_vllm_labs.runs.traces.why import life_of, lines_of, require_reasons, waited_for, waited_sentence
from mini_vllm_labs.runs.workloads.fallbacks import make_possible
from mini_vllm_labs.runs.workloads.small_workload import SMALL_POOL, Run, make_workload, policy_of


@friendly
@with_option_groups
def trace(
    lineup: LineupText = None,
    seed: Annotated[int, typer.Option(help="Seed of the workload.")] = 0,
    requests: Annotated[int, typer.Option(min=1, help="Number of requests.")] = 8,
    steps: Annotated[str | None, typer.Option(metavar="A-B", help="Print only these steps.")] = None,
    jsonl: Annotated[Path | None, typer.Option(help="Also write the trace here, one step per line.")] = None,
    read: Annotated[Path | None, typer.Option(help="Print this trace instead (.jsonl or .jsonl.gz).")] = None,
    name: Annotated[str | None, typer.Option(help="With --read: the scenario of a recorded file.")] = None,
    by: Annotated[
        str | None, typer.Option("--policy", metavar="NAME", help="A policy of `mini-vllm arena`, such as static.")
    ] = None,
    why: Annotated[bool, typer.Option("--why", help="Print what each request got, or why it got nothing.")] = False,
    request: Annotated[str | None, typer.Option(metavar="ID", help="Print this request's life, such as r3.")] = None,
    *,
    engine: EngineOptions,
) -> None:
    """Print the decisions of every step of a small workload, or of a trace file.

    The workload runs on the fake model, without torch.
    """
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
        config = engine_config(defaults, engine)
        budget = config.max_num_batched_tokens
        console.print("\n".join([whose_code(team), *remarks]), markup=False)
        arrivals = make_workload(seed, requests)
        run = Run(arrivals, config, team, policy_of(by, arrivals))
        run.engine.explain_steps()
        records, ended_by = run_to_the_end(run)
    if jsonl is not None:
        write_trace(jsonl, records, budget)
    if records or ended_by is None:
        first, last = step_range(steps, len(records))
        if why or request is not None:
            print_reasons(console, records, range(first, last + 1), request)
        else:
            console.print(step_table(records, budget, range(first, last + 1)))
            console.print(f"\n{totals(records)}", markup=False)
    if ended_by is not None:
        when = "an invariant was violated in step" if isinstance(ended_by, InvariantError) else "stalled before step"
        fail(f"{when} {len(records)}: {ended_by}", 1)


def print_reasons(console: Console, records: list[StepRecord], steps: range, request_id: str | None) -> None:
    """Print a line per request and step, or one request's life.

    Raises `ValueError` if the trace contains no reasons.
    """
    require_reasons(records)
    if request_id is not None:
        console.print("\n".join(life_of(records, request_id)), markup=False, highlight=False, soft_wrap=True)
        return
    for step in steps:
        for name, text in lines_of(records[step]):
            console.print(f"step {step:<4} {name:<6} {text}", markup=False, highlight=False, soft_wrap=True)
    for name, waited in waited_for(records).items():
        console.print(f"{name:<6} {waited_sentence(waited)}", markup=False, highlight=False, soft_wrap=True)


def run_to_the_end(run: Run) -> tuple[list[StepRecord], StalledError | InvariantError | None]:
    """Return the trace of a run, and the stall or the violated invariant that ended it early, if any."""
    records: list[StepRecord] = []
    try:
        while not run.finished:
            records.append(run.step())
    except (StalledError, InvariantError) as error:
        return records, error
    return records, None


def step_range(text: str | None, num_steps: int) -> tuple[int, int]:
    """Parse `A-B`, `A-`, `-B` or `A`. Raises `ValueError` if the text is not a range of the trace's steps."""
    if text is None:
        return 0, num_steps - 1
    start, dash, end = text.partition("-")
    if not all(part.isdecimal() or (dash and not part) for part in (start, end or start)) or not start + end:
        raise ValueError(f"--steps must look like 3-7, 3-, -7 or 3; got {text!r}")
    first = int(start or 0)
    last = int(end) if end else num_steps - 1 if dash else first
    if first > last or first >= num_steps:
        raise ValueError(f"--steps {text}: the trace contains steps 0 to {num_steps - 1}")
    return first, last
