"""Runs a benchmark: announces its length, shows each case as soon as it is ready, then shows the machine's load."""

import json
import os
import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from mini_vllm.assembly.lineup import Lineup
from mini_vllm_labs.bench.case import Case, PeerError
from mini_vllm_labs.pictures.terminal.charts import measured_bar
from mini_vllm_labs.pictures.terminal.console import fail, make_console, whose_code
from mini_vllm_labs.pictures.terminal.progress import ProgressReport, reported
from mini_vllm_labs.pictures.terminal.step_view import FAINT, STRONG

LOADING = "Loading torch and the model"
ModelsThreads = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Compute threads. Default: OMP_NUM_THREADS, or the number that is fastest at the time.",
        show_default=False,
    ),
]


@contextmanager
def measuring(text: str, seconds: float) -> Iterator[ProgressReport]:
    """Print to stderr how long the block takes on two idle cores, then show its progress like `reported`."""
    amount = f"{10 * round(seconds / 10) or 10} seconds" if seconds < 90 else f"{round(seconds / 60)} minutes"
    console = make_console(stderr=True)
    console.print(f"About {amount} on two quiet cores. Each result is shown once it is ready.", style=FAINT)
    with reported(text, console) as report:
        yield report


def run_cases(
    cases: Callable[[ProgressReport], Iterable[Case]],
    *,
    seconds: float,
    as_json: bool,
    lineup: Lineup | None = None,
    text: str = "Measuring",
    closing: Sequence[str | Table] = (),
    facts: dict[str, Any] | None = None,
) -> None:
    """Measure the cases one after another; print either JSON or, for each case, bars, followed by the `closing` texts.

    `facts` becomes part of the JSON object. `cases` may add to `facts` and `closing`. With --json, the bars go to
    stderr. If a required peer fails, the benchmark stops and shows that peer's last output.
    """
    console, found, before = make_console(stderr=as_json), [], load()
    if lineup is not None:
        console.print(whose_code(lineup), markup=False)
    try:
        with measuring(text, seconds) as report:
            for case in cases(report):
                found.append(case)
                show_case(console, case)
    except PeerError as error:
        fail(str(error), 1)
    machine = {"load": [before, load()], "cpus": os.cpu_count(), "python": platform.python_version()}
    if as_json:
        record = {"lineup": str(lineup), **(facts or {}), **machine, "cases": [asdict(case) for case in found]}
        typer.echo(json.dumps(record))
        return
    for part in closing:
        console.print()
        console.print(part, style=FAINT if isinstance(part, str) else "", markup=False)
    console.print(f"\n{load_line(before)}", style=FAINT)


def load() -> float | None:
    """Return the average number of processes that wanted a CPU in the last minute; None if the system cannot say."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def load_line(before: float | None) -> str:
    """Return the machine's load before a benchmark and now, because other programs seldom slow all sides equally."""
    return f"Machine load: {before} at the start, {load()} at the end; CPUs: {os.cpu_count()}."


def show_case(console: Console, case: Case) -> None:
    """Print a bar for each side with its median, range and ratio to the base, then other figures and notes."""
    console.print(f"\n{case.heading}", style=STRONG, markup=False)
    scale = max((side.median for side in case.sides.values()), default=0.0) or 1.0
    for name, side in case.sides.items():
        figures = case.spread(name) + (f"  x{case.ratio(name):.2f}" if case.base and name != case.base else "")
        is_ours = (name == case.base) == case.base_over_side
        console.print(measured_bar(name, side.median, scale, figures, ours=is_ours))
    for name, side in case.sides.items():
        found = [f"{key} {quantity}" for key, quantity in side.figures.items()]
        if side.equal[1] and name != case.base:
            found.append(f"{side.equal[0]} of {side.equal[1]} requests as in {case.base}")
        if found:
            console.print(f"{name}: {'; '.join(found)}", style=FAINT, markup=False)
    for note in case.notes:
        console.print(note, style=FAINT, markup=False)
    if not case.same_answers and not case.base_over_side:
        console.print("The answers differ, which is a bug.", style="bold red")
