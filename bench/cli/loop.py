"""`mini-vllm bench loop`: the time from a saved file to a result."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from bench.loop import BARE, measure_loop, timed_commands
from course.terminal.charts import duration, measured_bar
from course.terminal.console import friendly, make_console
from course.terminal.options import AsJson
from course.terminal.progress import reported
from course.terminal.step_view import FAINT, STRONG


@friendly
def bench_loop(
    rounds: Annotated[int, typer.Option(min=1, help="Runs of each; the fastest counts.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="One run, and only phase 1 is graded.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure the learner's loop, from a new process to its result.

    On the current files.
    """
    console = make_console(stderr=as_json)
    commands = timed_commands([1]) if quick else timed_commands()
    with reported("Measuring runs") as report:
        waits = measure_loop(commands, 1 if quick else rounds, report)
    if as_json:
        typer.echo(json.dumps({"seconds": [asdict(wait) for wait in waits]}))
        return
    console.print("From the start of a process to its result", style=STRONG)
    scale = max(wait.seconds for wait in waits)
    bare = next(wait.seconds for wait in waits if wait.name == BARE)
    for wait in waits:
        figures = f"{duration(wait.seconds):>7} {wait.seconds / bare:6.0f} x starting Python"
        console.print(measured_bar(wait.name, wait.seconds, scale, figures, ours=wait.name != BARE))
    console.print("Wall-clock time of the fastest run; other load on the machine counts.", style=FAINT)
