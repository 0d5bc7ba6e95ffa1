"""The results of grading as plain data, and a rule that groups failures by cause."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from mini_vllm_labs.grading.plan import PlannedPhase, PlannedTask

MAX_NAMES = 6
NUMBERS = re.compile(r"-?\d+")
VALUES = re.compile(r":|-?\d")  # where the values begin in an exception's message
UNUSABLE = re.compile(r"^The test could not go on after this answer of yours \((\w+).*\n  ([\w.]+)", re.MULTILINE)
PLACE = re.compile(r"^  labs/\w+/starter\.py:\d+", re.MULTILINE)


def mistake_in(text: str) -> str:
    """Return a key that is the same for two failures with the same cause.

    The key is the exception and its location, or the exception and the call whose answer stopped the test, or the rule
    and question.
    """
    if answer := UNUSABLE.search(text):
        return f"{answer[1]} {answer[2]}"
    if place := PLACE.search(text):
        error = next((line for line in text[: place.start()].splitlines()[::-1] if line.strip()), "")
        return f"{VALUES.split(error)[0]} {place[0]}"
    lines = text.strip().splitlines() or [""]
    return NUMBERS.sub("n", f"{lines[0]} {lines[-1]}")


def alike_line(tests: Sequence[str]) -> str:
    """Return a line with the ids of the other tests that fail in the same way as the one shown."""
    names = [test.rpartition("::")[2] for test in tests]
    count = "One more test fails" if len(names) == 1 else f"{len(names)} more tests fail"
    return f"{count} like this: {', '.join(names[:MAX_NAMES])}" + (" ..." if len(names) > MAX_NAMES else "")


Outcome = Literal["passed", "failed", "not started", "timeout", "crashed", "not run"]
Status = Literal["passed", "failed", "not started", "error"]


@dataclass(frozen=True)
class TestResult:
    """One graded test. `answer` is the digest of a wrong answer, and `module` the tested file, if any."""

    id: str
    outcome: Outcome
    message: str = ""
    seconds: float = 0.0
    answer: str = ""
    module: str | None = None


@dataclass(frozen=True)
class TaskGrade:
    """One task, whose points are split evenly among its tests."""

    plan: PlannedTask
    tests: list[TestResult]

    @property
    def points(self) -> float:
        return self.plan.points * sum(test.outcome == "passed" for test in self.tests) / len(self.plan.tests)

    @property
    def status(self) -> Status:
        outcomes = {test.outcome for test in self.tests}
        if outcomes == {"passed"}:
            return "passed"
        return "not started" if outcomes == {"not started"} else "failed"

    @property
    def first_failure(self) -> TestResult | None:
        """The first informative failed test; a test that only reaches an unwritten task comes last."""
        failures = [test for test in self.tests if test.outcome != "passed"]
        informative = [test for test in failures if test.outcome != "not started"]
        return next(iter(informative or failures), None)


@dataclass(frozen=True)
class EngineCheck:
    """The result of the oracle check or of a stack check. `culprits` are the phases known to be at fault.

    "not yet": the engine reached an unwritten task of the culprit; "not graded": the culprits do not load; "endless":
    the culprits' tests did not finish. `steps` holds the last steps of both engines if they differ.
    """

    status: Literal["passed", "failed", "not yet", "not graded", "endless", "not checked"]
    message: str = ""
    culprits: list[int] = field(default_factory=list)
    steps: dict[str, Any] | None = None


NOT_CHECKED, PASSED = EngineCheck("not checked"), EngineCheck("passed")


@dataclass(frozen=True)
class PhaseGrade:
    """One phase. `error` states why the learner's file was not graded; `note` comments on a file that was graded."""

    plan: PlannedPhase
    sha256: str
    tasks: list[TaskGrade]
    error: str = ""
    missing: list[str] = field(default_factory=list)
    oracle: EngineCheck = NOT_CHECKED
    stack: EngineCheck = NOT_CHECKED
    note: str = ""

    @property
    def points(self) -> float:
        return 0.0 if self.error else sum(task.points for task in self.tasks)

    @property
    def is_complete(self) -> bool:
        return not self.error and all(task.status == "passed" for task in self.tasks)

    @property
    def is_untouched(self) -> bool:
        return not self.error and all(task.status == "not started" for task in self.tasks)

    @property
    def outcomes(self) -> set[str]:
        return {test.outcome for task in self.tasks for test in task.tests}

    @property
    def can_run(self) -> bool:
        """Whether whole engines can run with this phase, because all of it is written and every test finished."""
        return not self.error and not self.outcomes & {"not started", "timeout", "crashed"}

    @property
    def alone(self) -> Status:
        """The phase's status according to its tests and the oracle, regardless of the learner's other phases."""
        if self.error:
            return "error"
        if self.is_untouched:
            return "not started"
        return "passed" if self.is_complete and self.oracle.status != "failed" else "failed"

    def alike(self, shown: TestResult) -> list[TestResult]:
        """Return the other tests that fail because of the same mistake as `shown`."""
        mistake = mistake_in(shown.message)
        failed = [test for task in self.tasks for test in task.tests if test.outcome not in ("passed", "not started")]
        return [test for test in failed if test is not shown and mistake_in(test.message) == mistake]


@dataclass(frozen=True)
class Grade:
    """All graded phases. Electives' points are counted separately."""

    phases: list[PhaseGrade]
    seconds: float = 0.0

    @property
    def course(self) -> list[PhaseGrade]:
        return [phase for phase in self.phases if not phase.plan.is_elective]

    @property
    def electives(self) -> list[PhaseGrade]:
        return [phase for phase in self.phases if phase.plan.is_elective]

    @property
    def points(self) -> float:
        return sum(phase.points for phase in self.course)

    @property
    def max_points(self) -> int:
        return sum(phase.plan.points for phase in self.course)

    @property
    def elective_points(self) -> float:
        return sum(phase.points for phase in self.electives)

    @property
    def max_elective_points(self) -> int:
        return sum(phase.plan.points for phase in self.electives)

    @property
    def has_errors(self) -> bool:
        return any(phase.error for phase in self.phases)
