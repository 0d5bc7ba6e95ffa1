"""The judge's results, as plain values."""

from dataclasses import dataclass, field
from typing import Literal

from classroom.judge.groups import TestGroup
from classroom.worker.scenario import Scenario
from classroom.worker.text import printable
from mini_vllm.core.step_record import StepRecord

Status = Literal["right", "wrong", "stopped", "late", "not written", "not played"]


@dataclass(frozen=True)
class Difference:
    """The first step in which two engines differ; each trace ends there, `mine` perhaps earlier."""

    step: int
    field: str
    reference: list[StepRecord]
    mine: list[StepRecord]


@dataclass(frozen=True)
class Outcome:
    """How one situation went. `message` is for the learner."""

    status: Status
    message: str = ""
    scenario: Scenario | None = None
    difference: Difference | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", printable(self.message))  # it may quote the learner's code


@dataclass(frozen=True)
class GroupGrade:
    """The situations of a group, in order."""

    group: TestGroup
    outcomes: list[Outcome]

    @property
    def num_right(self) -> int:
        return sum(outcome.status == "right" for outcome in self.outcomes)

    @property
    def points(self) -> float:
        """Its points by the share of situations that are right."""
        return self.group.points * self.num_right / len(self.outcomes)

    @property
    def first_failure(self) -> Outcome | None:
        return next((outcome for outcome in self.outcomes if outcome.status != "right"), None)


@dataclass(frozen=True)
class PhaseGrade:
    """A phase alone: the learner's file, and everything else the reference's. `error`: why nothing could be played."""

    number: int
    groups: list[GroupGrade]
    sha256: str = ""
    error: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "error", printable(self.error))

    @property
    def points(self) -> float:
        return sum(group.points for group in self.groups)

    @property
    def max_points(self) -> int:
        return sum(group.group.points for group in self.groups)

    @property
    def is_written(self) -> bool:
        """Whether any of it was more than the untouched starter."""
        statuses = {outcome.status for group in self.groups for outcome in group.outcomes}
        return not self.error and statuses != {"not written"}


@dataclass(frozen=True)
class SubmissionGrade:
    """One submission. `together` are situations with all written phases up to `together_up_to` in one engine."""

    name: str
    phases: list[PhaseGrade]
    together: list[Outcome] = field(default_factory=list)
    together_up_to: int = 0
    error: str = ""
    seconds: float = 0.0

    @property
    def points(self) -> float:
        return sum(phase.points for phase in self.phases)

    @property
    def max_points(self) -> int:
        return sum(phase.max_points for phase in self.phases)

    @property
    def together_status(self) -> str:
        """`pass`, `fail`, or `-` if no phases were run together."""
        if not self.together:
            return "-"
        return "pass" if all(outcome.status == "right" for outcome in self.together) else "fail"


def shown_points(points: float) -> float:
    """Return points with two decimals."""
    return round(points + 1e-9, 2)
