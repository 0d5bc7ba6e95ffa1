"""Which tasks have passed, and on which version of the learner's file: `.watch.json` of the checkout."""

import json
from typing import Any

from course.grading.plan import PLAN_FILE, PlannedPhase
from course.grading.results import PhaseGrade
from course.grading.starter_file import sha256
from mini_vllm.assembly.lineup import CHECKOUT

SETTINGS = CHECKOUT / ".watch.json"
FINISHES: dict[str, tuple[int, ...]] = {"observer": (), "scheduler": (1, 2, 3), "engine": (1, 2, 3, 4, 5, 6)}
"""The phases that each finish asks for."""


def kept() -> dict[str, Any]:
    """Return the settings: the finish, and the version on which each task has passed. A damaged file counts as none."""
    try:
        found = json.loads(SETTINGS.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def keep(name: str, value: object) -> None:
    """Change one of the settings; where nothing can be written, they last as long as the program."""
    try:
        SETTINGS.write_text(json.dumps(kept() | {name: value}, indent=1) + "\n", encoding="utf-8")
    except OSError:
        return


def version(file_sha256: str) -> str:
    """Return what a tick is kept for: the learner's file, by its digest, and the plan of the tests."""
    return f"{file_sha256[:16]} {sha256(PLAN_FILE)[:16]}"


class Ticks:
    """The tasks that have passed, by name such as "1.2". A tick of an older version of the file is stale."""

    def __init__(self) -> None:
        found = kept().get("passed")
        self._passed: dict[str, str] = found if isinstance(found, dict) else {}

    def state(self, phase: PlannedPhase, task: int) -> str:
        """Return `passed`, `stale` or `open`."""
        on = self._passed.get(f"{phase.number}.{task}")
        try:
            now = version(sha256(CHECKOUT / phase.starter))
        except OSError:
            now = ""
        return "open" if on is None else "passed" if on == now else "stale"

    def take(self, grade: PhaseGrade) -> None:
        """Note which of the tasks that were graded pass, and on which file."""
        for task in grade.tasks:
            self._passed.pop(name := f"{grade.plan.number}.{task.plan.number}", None)
            if task.status == "passed" and not grade.error:
                self._passed[name] = version(grade.sha256)
        keep("passed", self._passed)
