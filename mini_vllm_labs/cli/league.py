"""`mini-vllm league` runs a class's policies against each other."""

import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from mini_vllm_labs.pictures.terminal.console import friendly, make_console, whose_code
from mini_vllm_labs.pictures.terminal.learner_lineup import lineup_to_run
from mini_vllm_labs.pictures.terminal.options import AsJson, LineupText
from mini_vllm_labs.pictures.terminal.progress import reported
from mini_vllm_labs.pictures.terminal.step_view import FAINT
from mini_vllm_labs.simulation.arena.league import LOADS, Entry, run_league

ORDER = "Order: goodput (kept promises per second), then Jain's index of the tenants' service, then mean latency."


@friendly
def league(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files with a class MyPolicy.")],
    seed: Annotated[int, typer.Option(help="Seed of the requests.")] = 0,
    jobs: Annotated[int | None, typer.Option(min=1, help="Processes at a time. Default: one per core.")] = None,
    lineup: LineupText = None,
    as_json: AsJson = False,
) -> None:
    """Run each file's MyPolicy on the same requests, and print a table.

    Each file runs in a separate process with limited time and memory; if bubblewrap is installed, it also has no write
    access and no network. A file that raises an error, loops or stalls gets a row with the reason and no rank.
    """
    console = make_console(stderr=as_json)
    team = replace(lineup_to_run(lineup, console), runner="absent")
    console.print(whose_code(team), markup=False)
    started = time.perf_counter()
    with reported("Running the policies") as report:
        entries = run_league(
            files, team, seed, jobs, on_finished=lambda done: report("Running the policies", done, len(files))
        )
    per_minute = 60 * len(files) / (time.perf_counter() - started)
    if as_json:
        record = {"seed": seed, "lineup": str(team), "per_minute": per_minute, "entries": list(map(asdict, entries))}
        typer.echo(json.dumps(record))
        return
    console.print(table(entries))
    loads = " and ".join(f"{load.num_requests} of {load.workload}" for load in LOADS)
    console.print(f"{ORDER} Requests: {loads}, seed {seed}.", style=FAINT, markup=False)
    console.print(f"{len(files)} files, {per_minute:.0f} a minute", style=FAINT, markup=False)


def table(entries: list[Entry]) -> Table:
    """Return one row per entry, showing either its figures or its problem."""
    shown = Table(box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("place", "name", "requests/s", "Jain", "latency s", "problem"):
        shown.add_column(heading, justify="left" if heading in ("name", "problem") else "right")
    for entry in entries:
        cells = [f"{figure:.3f}" if entry.place else "-" for figure in (entry.goodput, entry.jain_index, entry.latency)]
        shown.add_row(str(entry.place or "-"), entry.name, *cells, entry.problem)
    return shown
