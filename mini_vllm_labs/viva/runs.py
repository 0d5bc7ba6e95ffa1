"""Runs a learner's files, original and changed, each in the sandbox, and compares the runs' decisions."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Self

from mini_vllm.core.step_record import StepRecord
from mini_vllm_labs.fresh.process import receive
from mini_vllm_labs.grading.worker import GradingWorker
from mini_vllm_labs.runs.oracle.divergence import COMPARED
from mini_vllm_labs.runs.sandbox import IN_BROWSER
from mini_vllm_labs.runs.sandbox.channel import ChannelError
from mini_vllm_labs.viva.files import Files
from mini_vllm_labs.viva.play import MAX_BYTES, play

SECONDS = 60.0


@dataclass(frozen=True)
class Played:
    """The steps of a run, what was observed in the files, its settings, and the reason if it ended early."""

    steps: Sequence[StepRecord]
    seen: Mapping[str, list[list[Any]]]
    problem: str = ""
    settings: Mapping[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> list[str]:
        return [row_of(step) for step in self.steps]

    def lines(self, start: int, stop: int) -> list[str]:
        """Return the rows of some steps with their numbers, and the failure if the run fails before `stop`."""
        start = max(0, start)
        rows = [f"{number}: {row}" for number, row in enumerate(self.rows[start:stop], start=start)]
        return [*rows, "it fails"] if self.problem and stop > len(self.steps) else rows

    def around(self, step: int) -> tuple[str, ...]:
        return tuple(self.lines(step - 2, step + 3))

    def share(self, step: int, request_id: str) -> int:
        """Return the tokens that a request gets in a step."""
        return sum(one["n"] for one in self.steps[step]["scheduled"] if one["id"] == request_id)


def row_of(step: StepRecord) -> str:
    """Return a step's decisions, as in `r0 1, r5 8 · preempts r3 · ends r1 · 5 free`."""
    shares = ", ".join(f"{one['id']} {one['n']}" for one in step["scheduled"]) or "nothing"
    parts = [f"preempts {', '.join(one[0] for one in step['preempted'])}"] if step["preempted"] else []
    parts += [f"ends {', '.join(one[0] for one in step['finished'])}"] if step["finished"] else []
    return " · ".join([shares, *parts, f"{step['free_after_update']} free"])


def first_change(before: Played, after: Played, decision: Callable[[StepRecord], object] = row_of) -> int | None:
    """Return the first step whose decisions differ or that only one of the runs has, or None."""
    both = zip_longest(before.steps, after.steps)
    differ = (one is None or other is None or decision(one) != decision(other) for one, other in both)
    return next((step for step, is_different in enumerate(differ) if is_different), None)


def whole_decision(step: StepRecord) -> list[object]:
    """Return all decisions in a step, in the form in which the oracle compares them."""
    return [step[field] for field in COMPARED]  # type: ignore[literal-required]


class RunPlayer:
    """Runs the same workload several times in one process, and replaces the process if a run kills it.

    In a browser, there are no processes.
    """

    def __init__(self, seed: int, requests: int) -> None:
        self._job = {"seed": seed, "requests": requests}
        self._worker: GradingWorker | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def play(
        self, files: Files, settings: Mapping[str, Any] | None = None, *, lineup: str = "", watched: bool = False
    ) -> Played:
        """Return a run of these files with changed engine settings, or, given a `lineup`, a run without the files."""
        texts = {} if lineup else files.texts
        job = self._job | {"lineup": lineup or files.lineup, "settings": settings or {}, "watched": watched}
        found = self._ask(job | {"texts": texts})
        return Played(found["steps"], found["seen"], found["problem"], found["settings"])

    def _ask(self, job: dict[str, Any]) -> dict[str, Any]:
        if IN_BROWSER:
            return play(job)
        if self._worker is None:
            self._worker = GradingWorker(["-m", "mini_vllm_labs.viva"], max_bytes=MAX_BYTES)
        self._worker.deadline = time.monotonic() + SECONDS
        try:
            self._worker.send(job)
            return receive(self._worker)
        except ChannelError as error:
            self.__exit__()
            problem = f"the process of the run ended or took too long ({error})"
            return {"steps": [], "seen": {}, "problem": problem, "settings": {}}
