"""The learner's loop: seconds from a saved file to a result, each in a new process."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mini_vllm.assembly.lineup import CHECKOUT, PHASE_NAMES

NUM_ROUNDS = 3
PHASE_1 = "labs/phase1_scheduler_step"
BARE = "Python itself"


@dataclass(frozen=True, slots=True)
class TimedCommand:
    """A command that a learner waits for. `legal` are the exit codes of a completed run."""

    name: str
    command: Sequence[str]
    legal: Sequence[int] = (0,)


@dataclass(frozen=True, slots=True)
class Measured:
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


def measure_loop(
    commands: Sequence[TimedCommand],
    num_rounds: int = NUM_ROUNDS,
    on_progress: Callable[[str, int, int], None] = lambda text, done, total: None,
) -> list[Measured]:
    """Run all commands in turns; the fastest run counts. Raises `RuntimeError` if one does not complete."""
    best: dict[str, float] = {}
    for number in range(num_rounds):
        for index, timed in enumerate(commands):
            on_progress("Measuring runs", number * len(commands) + index, num_rounds * len(commands))
            best[timed.name] = min(_run(timed), best.get(timed.name, float("inf")))
    return [Measured(timed.name, _readable(timed.command), best[timed.name]) for timed in commands]


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
