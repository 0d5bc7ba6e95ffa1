"""Measures the seconds from saving a file to the verdict on a phase's first task.

`python -m mini_vllm_labs.bench.save_to_verdict PHASE ROUNDS` measures the starter in the folder where it runs.
"""

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm.assembly.parts import solutions_exist
from mini_vllm_labs.bench.case import Case, Measured, PeerError, in_turns
from mini_vllm_labs.grading.grader import grade_tests
from mini_vllm_labs.grading.plan import PlannedPhase, load_whole_plan
from mini_vllm_labs.grading.spare_worker import SpareWorker
from mini_vllm_labs.pictures.terminal.progress import ProgressReport
from mini_vllm_labs.runs.starter_status import lab_folder, unwritten_tasks

COPIED = ("conftest.py", "pyproject.toml", "mini_vllm", "mini_vllm_labs", "labs")
BY_HAND, NEW, WAITING = "pytest by hand", "new worker", "waiting worker"
REST_SECONDS = 0.5  # a worker that has used no CPU time for this long has imported everything


def verdict_cases(numbers: Sequence[int], num_rounds: int, report: ProgressReport) -> Iterator[Case]:
    """Yield a case for each phase, measured on a copy of the course.

    The copy's starters are the solutions where they exist, and otherwise the learner's files. Raises `ValueError` for a
    phase that has not been filled in, and `PeerError` if a first task does not pass.
    """
    with TemporaryDirectory() as folder:
        for name in COPIED:
            copy = shutil.copytree if (CHECKOUT / name).is_dir() else shutil.copy
            copy(CHECKOUT / name, Path(folder, name))
        for number in numbers:
            if solutions_exist():
                solution = CHECKOUT / "solutions" / f"{lab_folder(number)}.py"
                shutil.copy(solution, Path(folder, "labs", lab_folder(number), "starter.py"))
            elif unwritten_tasks(number):
                raise ValueError(
                    f"--phase {number}: write its starter first, because an unwritten starter has no verdict"
                )
            report(f"phase {number}")
            program = [sys.executable, "-m", __name__, str(number), str(num_rounds)]
            done = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False)
            if done.returncode:
                raise PeerError((done.stderr.strip().splitlines() or ["the measuring process ended"])[-1])
            rounds = {name: [Measured(value) for value in values] for name, values in json.loads(done.stdout).items()}
            yield Case.of(f"Phase {number}, task 1: from a save to the verdict", "s", NEW, rounds, base_over_side=True)


def measured(phase: PlannedPhase, num_rounds: int) -> dict[str, list[float]]:
    """Return each round's seconds for the three ways to get a verdict on the phase's first task."""
    first, spare = replace(phase, tasks=phase.tasks[:1]), SpareWorker()

    def graded(with_spare: SpareWorker | None) -> Measured:
        start = time.perf_counter()
        grade = grade_tests(first, threading.Event(), spare=with_spare)
        seconds = time.perf_counter() - start
        if not grade.is_complete:
            raise ValueError(f"the first task of phase {phase.number} does not pass: {grade.error or grade.alone}")
        return Measured(seconds)

    def waited(number: int) -> Measured:
        spare.prepare(phase.number)
        wait_until_idle(spare)
        return graded(spare)

    def by_hand(number: int) -> Measured:
        files = sorted({f"{phase.folder}/{test.partition('::')[0]}" for test in first.tasks[0].tests})
        start = time.perf_counter()
        program = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *files]
        subprocess.run(program, env={**os.environ, "LAB_IMPL": "starter"}, capture_output=True, check=True)
        return Measured(time.perf_counter() - start)

    try:
        runs = {BY_HAND: by_hand, NEW: lambda number: graded(None), WAITING: waited}
        rounds = in_turns(runs, num_rounds, num_warm_ups=1)
    finally:
        spare.close()
    return {name: [one.value for one in found] for name, found in rounds.items()}


def wait_until_idle(spare: SpareWorker) -> None:
    """Wait until the spare worker stops using CPU time, as it does while a learner types."""
    process, spent = psutil.Process(spare.waiting_pid), None
    while (now := process.cpu_times()[:2]) != spent or sum(now) == 0:
        spent = now
        time.sleep(REST_SECONDS)


if __name__ == "__main__":
    plan = {phase.number: phase for phase in load_whole_plan()}
    print(json.dumps(measured(plan[int(sys.argv[1])], int(sys.argv[2]))))
