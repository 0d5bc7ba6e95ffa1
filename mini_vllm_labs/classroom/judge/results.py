"""The judge's results: outcomes with what a learner is shown, and plain JSON, which every table is made of."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from mini_vllm_labs.classroom.worker.scenario import EngineScenario
from mini_vllm_labs.classroom.worker.text import printable
from mini_vllm_labs.runs.oracle.divergence import Divergence

if TYPE_CHECKING:
    from mini_vllm_labs.classroom.judge.groups import TestGroup

Status = Literal["right", "wrong", "stopped", "late", "not written", "not played"]


@dataclass(frozen=True)
class Outcome:
    """How one situation went. `message` is for the learner."""

    status: Status
    message: str = ""
    scenario: EngineScenario | None = None
    divergence: Divergence | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", printable(self.message))  # it may quote the learner's code


class GroupResult(TypedDict):
    """A group of situations: the status of each."""

    title: str
    points: float
    max: int
    situations: list[str]


class PhaseResult(TypedDict):
    """A phase alone. `sha256` is that of the file, None if there was none; `error`: why nothing could be played."""

    phase: int
    sha256: str | None
    error: str | None
    points: float
    max: int
    groups: list[GroupResult]


class Together(TypedDict):
    """Whether the written phases work in one engine: "pass", "fail" or "-"."""

    up_to_phase: int
    status: str


class SubmissionResult(TypedDict):
    """One submission, without times, so that equal runs give equal results."""

    name: str
    error: str | None
    points: float
    max: int
    together: Together
    phases: list[PhaseResult]


@dataclass(frozen=True)
class ClassResults:
    """The results of a run. `jailed`: whether submissions were isolated from the machine."""

    seed: str
    per_group: int
    jailed: bool
    submissions: list[SubmissionResult]

    def as_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "situations_per_group": self.per_group,
            "isolated": self.jailed,
            "submissions": self.submissions,
        }


@dataclass
class SubmissionGrade:
    """One submission while it is graded, and what its feedback shows.

    `failures`: the first outcome of a group that is not right, by phase and the group's title. `together`: the outcomes
    of all written phases up to `together_up_to` in one engine.
    """

    name: str
    error: str = ""
    notes: list[str] = field(default_factory=list)
    phases: list[PhaseResult] = field(default_factory=list)
    failures: dict[tuple[int, str], Outcome] = field(default_factory=dict)
    together: list[Outcome] = field(default_factory=list)
    together_up_to: int = 0
    seconds: float = 0.0

    def result(self) -> SubmissionResult:
        is_right = all(outcome.status == "right" for outcome in self.together)
        status = "-" if not self.together else "pass" if is_right else "fail"
        return {
            "name": self.name,
            "error": self.error or None,
            "points": rounded(sum(points_of(group) for phase in self.phases for group in phase["groups"])),
            "max": sum(phase["max"] for phase in self.phases),
            "together": {"up_to_phase": self.together_up_to, "status": status},
            "phases": self.phases,
        }


def group_result(group: "TestGroup", outcomes: list[Outcome]) -> GroupResult:
    """Return the result of a group: its points by the share of situations that are right."""
    found: GroupResult = {
        "title": group.title,
        "points": 0.0,
        "max": group.points,
        "situations": [outcome.status for outcome in outcomes],
    }
    return {**found, "points": rounded(points_of(found))}


def phase_result(number: int, groups: list[GroupResult], sha256: str | None, error: str) -> PhaseResult:
    return {
        "phase": number,
        "sha256": sha256,
        "error": printable(error) or None,
        "points": rounded(sum(map(points_of, groups))),
        "max": sum(group["max"] for group in groups),
        "groups": groups,
    }


def points_of(group: GroupResult) -> float:
    """Return the points of a group before they are rounded, as sums need them."""
    return group["max"] * group["situations"].count("right") / len(group["situations"])


def rounded(points: float) -> float:
    return round(points + 1e-9, 2)


def is_played(phase: PhaseResult) -> bool:
    """Return whether any situation of a phase was played."""
    return any(status != "not played" for group in phase["groups"] for status in group["situations"])


def is_written(phase: PhaseResult) -> bool:
    """Return whether any of a phase was more than the untouched starter."""
    statuses = {status for group in phase["groups"] for status in group["situations"]}
    return not phase["error"] and statuses != {"not written"}
