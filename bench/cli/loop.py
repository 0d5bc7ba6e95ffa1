"""`mini-vllm bench loop`: the learner's loop, from a saved file to a result, each time in a new process."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

import typer

from course.terminal.charts import duration, measured_bar
from course.terminal.console import friendly, make_console
from course.terminal.options import AsJson
from course.terminal.progress import Report, reported
from course.terminal.step_view import FAINT, STRONG
from mini_vllm.assembly.lineup import CHECKOUT, PHASE_NAMES

PHASE_1 = "labs/phase1_scheduler_step"
BARE = "Python itself"


@dataclass(frozen=True, slots=True)
class TimedCommand:
    """A command that a learner waits for. `legal` are the exit codes of a completed run."""

    name: str
    command: Sequence[str]
    legal: Sequence[int] = (0,)


@dataclass(frozen=True, slots=True)
class Wait:
    """The fastest of several runs, in seconds."""

    name: str
    command: str
    seconds: float


def timed_commands(phases: Sequence[int] = range(1, len(PHASE_NAMES) + 1)) -> list[TimedCommand]:
    """Return what is measured: starting Python, importing the core, the tests of phase 1, grading each phase."""
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", PHASE_1]
    return [
        TimedCommand(BARE, [sys.executable, "-c", "pass"]),
        TimedCommand("import mini_vllm", [sys.executable, "-c", "import mini_vllm"]),
        TimedCommand("tests of phase 1", pytest, (0, 1)),
        *(
            TimedCommand(
                f"grade of phase {phase}", [sys.executable, "-m", "cli", "grade", "--phase", str(phase), "--json"]
            )
            for phase in phases
        ),
    ]


def measure_loop(commands: Sequence[TimedCommand], num_rounds: int, report: Report) -> list[Wait]:
    """Run all commands in turns; the fastest run counts. Raises `RuntimeError` if one does not complete."""
    best: dict[str, float] = {}
    for number in range(num_rounds):
        for index, timed in enumerate(commands):
            report("Measuring runs", number * len(commands) + index, num_rounds * len(commands))
            best[timed.name] = min(_run(timed), best.get(timed.name, float("inf")))
    return [Wait(timed.name, _readable(timed.command), best[timed.name]) for timed in commands]


def _run(timed: TimedCommand) -> float:
    start = time.perf_counter()
    done = subprocess.run(timed.command, cwd=CHECKOUT, capture_output=True, text=True, env=os.environ, check=False)
    seconds = time.perf_counter() - start
    if done.returncode not in timed.legal:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["nothing"]
        raise RuntimeError(f"{timed.name} exited with {done.returncode}; its last line: {last[0]}")
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
