"""The learner's loop: how long from a saved file to a verdict. Wall-clock seconds of fresh processes."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mini_vllm.seams.lineup import CHECKOUT, PHASE_NAMES

NUM_ROUNDS = 3
PHASE_1 = "labs/phase1_scheduler_step"
BARE = "Python itself"


@dataclass(frozen=True, slots=True)
class Errand:
    """Something a learner waits for. `legal` are the exit codes of a run that came to a verdict."""

    name: str
    command: Sequence[str]
    legal: Sequence[int] = (0,)


@dataclass(frozen=True, slots=True)
class Waited:
    """The quickest of some runs, in seconds."""

    name: str
    command: str
    seconds: float


def errands(phases: Sequence[int] = range(1, len(PHASE_NAMES) + 1)) -> list[Errand]:
    """Return what is measured: starting Python, the core, phase 1's tests, and the grade of each phase."""
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", PHASE_1]
    return [
        Errand(BARE, [sys.executable, "-c", "pass"]),
        Errand("import mini_vllm", [sys.executable, "-c", "import mini_vllm"]),
        Errand("tests of phase 1", pytest, (0, 1)),
        *(
            Errand(
                f"grade of phase {phase}", [sys.executable, "-m", "course", "grade", "--phase", str(phase), "--json"]
            )
            for phase in phases
        ),
    ]


def measure_loop(
    todo: Sequence[Errand], num_rounds: int = NUM_ROUNDS, say: Callable[[str], None] = lambda text: None
) -> list[Waited]:
    """Run every errand, in turns; the quickest run counts. Raises `RuntimeError` if one comes to no verdict."""
    best: dict[str, float] = {}
    for number in range(num_rounds):
        for errand in todo:
            say(f"{errand.name}, round {number + 1} of {num_rounds}")
            best[errand.name] = min(_run(errand), best.get(errand.name, float("inf")))
    return [Waited(errand.name, _readable(errand.command), best[errand.name]) for errand in todo]


def _run(errand: Errand) -> float:
    start = time.perf_counter()
    done = subprocess.run(errand.command, cwd=CHECKOUT, capture_output=True, text=True, env=os.environ, check=False)
    seconds = time.perf_counter() - start
    if done.returncode not in errand.legal:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["nothing"]
        raise RuntimeError(f"{errand.name} ended with {done.returncode} and said last: {last[0]}")
    return seconds


def _readable(command: Sequence[str]) -> str:
    return " ".join(["python", *(json.dumps(part) if " " in part else part for part in command[1:])])
