"""`mini-vllm bench loop`: the learner's loop, from a saved file to a result, each time in a new process."""

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from bench.cli.announced import measuring
from course.terminal.charts import duration, measured_bar, spread
from course.terminal.console import friendly, make_console
from course.terminal.options import AsJson
from course.terminal.progress import ProgressReport
from course.terminal.step_view import FAINT, STRONG
from mini_vllm.assembly.lineup import CHECKOUT, PHASE_NAMES

PHASE_1 = "labs/phase1_scheduler_step"
BARE, TESTS = "Python itself", "tests of phase 1"


def timed_commands(phases: Sequence[int] = range(1, len(PHASE_NAMES) + 1)) -> dict[str, list[str]]:
    """Return what is measured: starting Python, importing the core, the tests of phase 1, grading each phase."""
    commands = {
        BARE: ["-c", "pass"],
        "import mini_vllm": ["-c", "import mini_vllm"],
        TESTS: ["-m", "pytest", "-q", "-p", "no:cacheprovider", PHASE_1],  # the learner's list of last failures stays
    }
    for phase in phases:
        commands[f"grade of phase {phase}"] = ["-m", "cli", "grade", "--phase", str(phase), "--json"]
    return {name: [sys.executable, *arguments] for name, arguments in commands.items()}


def measure_loop(
    commands: Mapping[str, Sequence[str]], num_rounds: int, report: ProgressReport
) -> dict[str, list[float]]:
    """Run all commands in turns; return the seconds of all runs of each.

    Raises `RuntimeError` if one does not complete.
    """
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(num_rounds):
        for index, (name, command) in enumerate(commands.items()):
            done, total = number * len(commands) + index, num_rounds * len(commands)
            report("Measuring runs", done, total)
            seconds[name].append(_run(name, command))
            run = f"run {number + 1} of {num_rounds}"
            report("Measuring runs", done + 1, total, f"{name}, {run}: {duration(seconds[name][-1])}")
    return seconds


def _run(name: str, command: Sequence[str]) -> float:
    start = time.perf_counter()
    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode != 0 and (name, done.returncode) != (TESTS, 1):  # the tests complete, and some may fail
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["nothing"]
        raise RuntimeError(f"{name} exited with {done.returncode}; its last line: {last[0]}")
    return seconds


def _readable(command: Sequence[str]) -> str:
    return " ".join(["python", *(json.dumps(part) if " " in part else part for part in command[1:])])


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
    with measuring("Measuring runs", 5 if quick else 18 * rounds) as report:
        measured = measure_loop(commands, 1 if quick else rounds, report)
    best = {name: min(seconds) for name, seconds in measured.items()}
    if as_json:
        waits = [
            {"name": name, "command": _readable(commands[name]), "seconds": best[name], "all_seconds": measured[name]}
            for name in commands
        ]
        typer.echo(json.dumps({"seconds": waits}))
        return
    console.print("From the start of a process to its result", style=STRONG)
    for name, seconds in best.items():
        figures = f"{spread(measured[name]):<17} {seconds / best[BARE]:5.0f} x Python"
        console.print(measured_bar(name, seconds, max(best.values()), figures, ours=name != BARE))
    console.print("Wall-clock time of the fastest run; other load on the machine counts.", style=FAINT)
