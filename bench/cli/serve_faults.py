"""`mini-vllm bench serve-faults`: what our server stands, and what must hold after each part of it."""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from bench.backend import Settings
from bench.cli.serve import KV_CACHE_TOKENS, ServerThreads
from bench.peer_process import PeerError
from bench.serve.faults.part import Part
from bench.serve.faults.parts import run_parts
from bench.serve.faults.sizes import QUICK, Sizes
from bench.serve.faults.view import show_parts
from bench.serve.model_directory import EMBEDDED, RANDOM, model_directory
from course.terminal.console import fail, friendly, make_console, whose_code
from course.terminal.learner_lineup import lineup_to_run
from course.terminal.options import LineupText
from course.terminal.progress import reported
from course.terminal.step_view import FAINT

WHAT_HOLDS = (
    "After each part every block must be free, every queue empty, no thread and no file more open than before the "
    "first one, and every completed answer the same text as LLM.generate's. Memory must not grow under steady load."
)


@friendly
def bench_serve_faults(
    model: Annotated[str, typer.Option(help=f"'{EMBEDDED}', '{RANDOM}' or a model directory.")] = EMBEDDED,
    minutes: Annotated[
        float, typer.Option(min=0.0, help="Of steady load, to see whether memory grows; 10 is a proof.")
    ] = 1.0,
    lineup: LineupText = None,
    threads: ServerThreads = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few of everything: a trial run.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the numbers as one JSON object.")] = False,
) -> None:
    """Hang up, do not read, send nonsense, open a thousand connections, let steps fail, send SIGTERM.

    Exits with 1 if anything does not hold afterwards.
    """
    console = make_console(stderr=as_json)
    team = lineup_to_run(lineup, console)
    with tempfile.TemporaryDirectory() as folder:
        try:
            with reported("Opening the model") as report:
                directory = "" if team.runner == "absent" else model_directory(model, Path(folder))
                settings = Settings(directory, "float32", threads or 0, KV_CACHE_TOKENS, lineup=str(team))
                sizes = QUICK if quick else replace(Sizes(), minutes=minutes)
                parts = list(run_parts(settings, sizes, report))
        except PeerError as error:
            fail(str(error), 1)
    if as_json:
        typer.echo(json.dumps(as_record(settings, sizes, parts)))
    else:
        console.print(whose_code(team), markup=False)
        show_parts(console, parts)
        console.print(f"\n{WHAT_HOLDS}", style=FAINT)
    if any(part.problems for part in parts):
        raise typer.Exit(1)


def as_record(settings: Settings, sizes: Sizes, parts: Sequence[Part]) -> dict[str, Any]:
    """Return everything as a JSON object; sizes in bytes, times in seconds."""
    return {
        "settings": asdict(settings),
        "sizes": asdict(sizes),
        "parts": [{**asdict(part), "tally": tally_record(part), "problems": part.problems} for part in parts],
    }


def tally_record(part: Part) -> dict[str, Any]:
    """Return the counts of a part. `asdict` would make a `Counter`'s pairs to its keys."""
    return {**asdict(part.tally), "problems": dict(part.tally.problems)}
