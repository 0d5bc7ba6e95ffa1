"""`python -m tests.judge.cost` prints the judge's CPU seconds for one submission, and the hours for a class.

Each grading process also draws all situations once.
"""

import os
from collections.abc import Callable
from dataclasses import replace
from time import process_time
from typing import ClassVar
from unittest.mock import patch

from mini_vllm_labs.classroom.judge import worker as jailed
from mini_vllm_labs.classroom.judge.jail import compile_course, find_jail
from mini_vllm_labs.classroom.judge.judge import Judge
from mini_vllm_labs.classroom.judge.memory_watch import family, read
from mini_vllm_labs.classroom.judge.settings import JudgeSettings
from mini_vllm_labs.classroom.judge.submission import Submission
from mini_vllm_labs.classroom.judge.worker import JailedWorker
from mini_vllm_labs.runs.starter_status import starter_path
from tests.judge.files import solved

PHASES = range(1, 7)
UNWRITTEN = "".join(
    f"\ndef {name}(*given): raise NotImplementedError('Phase 6, task 6')"
    for name in ("write_kv", "paged_attention", "sample")
)
CLASS_SIZE, NUM_CORES = 500, 2


def main() -> None:
    """Print a line per kind of submission."""
    right = solved(*PHASES)
    untouched = Submission("untouched", {phase: starter_path(phase).read_bytes() for phase in PHASES})
    half = untouched.starters | {phase: right.starters[phase] for phase in (1, 2, 3, 6)}
    half[6] += UNWRITTEN.encode()
    compile_course()
    judge = Judge(JudgeSettings("cost", seconds=60, minutes=60, jailed=True), find_jail())
    print(f"all situations, drawn once: {cpu_of(lambda: judge.draw(PHASES)):.1f} CPU seconds", flush=True)
    for submission in (untouched, replace(right, name="right"), Submission("half done", half)):
        seconds = cpu_of(lambda submission=submission: judge.grade(submission))  # type: ignore[misc]
        hours = seconds * CLASS_SIZE / NUM_CORES / 3600
        print(
            f"{submission.name}: {seconds:.1f} CPU seconds; {CLASS_SIZE} on {NUM_CORES} cores: {hours:.2f} h",
            flush=True,
        )


class Counted(JailedWorker):
    """A worker that adds up the time of its processes and their children, because bubblewrap's children are never
    waited for."""

    seconds: ClassVar[list[float]] = []

    def close(self) -> None:
        if self.process.is_running:
            stats = [read(f"/proc/{pid}/stat").rpartition(")")[2].split() for pid in family(self.process.pid)]
            Counted.seconds.extend(sum(map(int, stat[11:15])) / os.sysconf("SC_CLK_TCK") for stat in stats if stat)
        super().close()


def cpu_of(work: Callable[[], object]) -> float:
    """Return the CPU seconds that this process and its workers spend on `work`."""
    before, num_before = process_time(), len(Counted.seconds)
    with patch.object(jailed, "JailedWorker", Counted):
        work()
    return process_time() - before + sum(Counted.seconds[num_before:])


if __name__ == "__main__":
    main()
