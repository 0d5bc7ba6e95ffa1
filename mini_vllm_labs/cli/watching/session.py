"""Tracks a learner's progress: which tasks a finish has, which have passed, the current task, and what to grade
next."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.grading.history import note_grades
from mini_vllm_labs.grading.plan import PLAN_FILE, PlannedPhase, load_whole_plan
from mini_vllm_labs.grading.results import PhaseGrade
from mini_vllm_labs.grading.starter_file import sha256
from mini_vllm_labs.runs.starter_status import is_begun

SETTINGS = CHECKOUT / ".watch.json"
FINISHES: dict[str, range] = {"observer": range(0), "scheduler": range(1, 4), "engine": range(1, 7)}
"""The phases that each finish requires."""


def kept() -> dict[str, Any]:
    """Return the finish, and the file version with which each task passed. A damaged file counts as missing."""
    try:
        found = json.loads(SETTINGS.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def keep(**settings: object) -> None:
    SETTINGS.write_text(json.dumps(kept() | settings, indent=1) + "\n", encoding="utf-8")


class TaskNumber(NamedTuple):
    """A phase's number and the number of a task in it, such as `1.2`."""

    phase: int
    number: int

    def __str__(self) -> str:
        return f"{self.phase}.{self.number}"


class WatchSession:
    """The tasks of some phases in order. `current` is None once all of them have passed."""

    def __init__(self, phases: Sequence[int]) -> None:
        self.phases = {phase.number: phase for phase in load_whole_plan() if phase.number in phases}
        self.tasks = [TaskNumber(number, task.number) for number, phase in self.phases.items() for task in phase.tasks]
        found = kept().get("passed")
        self._passed: dict[str, str] = found if isinstance(found, dict) else {}
        self.current = next(iter(self.unfinished()), None)

    def state(self, task: TaskNumber) -> str:
        """Return `passed`, `stale` (it passed before the file was changed) or `open`."""
        on = self._passed.get(str(task))
        try:
            is_same = on == version(sha256(CHECKOUT / self.phases[task.phase].starter))
        except OSError:
            is_same = False
        return "open" if on is None else "passed" if is_same else "stale"

    def unfinished(self, phase: int = 0) -> list[TaskNumber]:
        mine = [task for task in self.tasks if phase in (0, task.phase)]
        return [task for task in mine if self.state(task) != "passed"]

    def is_unwritten(self, task: TaskNumber) -> bool:
        return bool(line_of(self.phases[task.phase], task.number))

    def saved(self, phase: int) -> None:
        """Switch to the phase that was saved: to its first open task, or else to one that must pass again.

        Within the phase, go back from an unwritten task to an earlier one that was skipped and is now written.
        """
        if self.current is None or self.current.phase != phase:
            left = sorted(self.unfinished(phase), key=lambda task: self.state(task) != "open")
            self.current = next(iter(left), self.current)
        elif self.is_unwritten(self.current):
            skipped = (task for task in self.unfinished(phase) if task < self.current and not self.is_unwritten(task))
            self.current = next(skipped, self.current)

    def skip(self) -> None:
        """Go to the next task that has not passed, wrapping around from the last task to the first."""
        left = self.unfinished()
        at = left.index(self.current) + 1 if self.current in left else 0
        self.current = next(iter(left[at:] + left[:at]), None)

    def to_grade(self) -> list[TaskNumber]:
        """Return the tasks to grade now: the current one, or none if its file is untouched and cannot pass."""
        if self.current is None:
            return []
        is_there = (CHECKOUT / self.phases[self.current.phase].starter).exists()
        return [self.current] if is_begun(self.current.phase) or not is_there else []

    def only(self, tasks: Sequence[TaskNumber]) -> PlannedPhase:
        """Return the phase that these tasks belong to, without its other tasks."""
        phase = self.phases[tasks[0].phase]
        return replace(phase, tasks=[one for one in phase.tasks if TaskNumber(phase.number, one.number) in tasks])

    def take(self, grade: PhaseGrade) -> list[TaskNumber]:
        """Record the result of a task.

        Return the tasks in the same file that passed before it changed; they are graded next.

        The first task that fails becomes the current one; if none fails, the next task that has not passed becomes
        current.
        """
        phase = grade.plan.number
        for task in grade.tasks:
            self._passed.pop(f"{phase}.{task.plan.number}", None)
            if task.status == "passed" and not grade.error:
                self._passed[f"{phase}.{task.plan.number}"] = version(grade.sha256)
        keep(passed=self._passed)
        note_grades([grade])
        failed = [TaskNumber(phase, task.plan.number) for task in grade.tasks if task.status != "passed"]
        stale = [task for task in self.unfinished(phase) if self.state(task) == "stale"]
        if failed or grade.error:
            self.current = next(iter(failed), self.current)
            return []
        if not stale:
            self.current = next(iter(self.unfinished(phase) or self.unfinished()), None)
        return stale


def line_of(phase: PlannedPhase, task: int) -> str:
    """Return the line of a starter's unwritten task, such as ":14", or an empty string if the task is written."""
    ours = re.compile(rf'NotImplementedError\("Phase {phase.number}, tasks?[\d, and]* {task}\b')
    try:
        lines = (CHECKOUT / phase.starter).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeError):
        return ""
    return next((f":{number}" for number, line in enumerate(lines, start=1) if ours.search(line)), "")


def version(file_sha256: str) -> str:
    """Return the version that a tick applies to: digests of the learner's file and of the test plan."""
    return f"{file_sha256[:16]} {sha256(PLAN_FILE)[:16]}"
