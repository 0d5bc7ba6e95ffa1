"""The judge's results: outcomes with the text for the learner, and plain JSON for all tables."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from mini_vllm_labs.classroom.worker.scenario import EngineScenario
from mini_vllm_labs.classroom.worker.text import printable
from mini_vllm_labs.runs.oracle.divergence import Divergence
from mini_vllm_labs.viva import NUM_QUESTIONS

if TYPE_CHECKING:
    from mini_vllm_labs.classroom.judge.groups import TestGroup

MAX_VIVA = NUM_QUESTIONS
Status = Literal["right", "wrong", "stopped", "late", "not written", "not played"]


@dataclass(frozen=True)
class Outcome:
    """The outcome of one situation. `message` is for the learner."""

    status: Status
    message: str = ""
    scenario: EngineScenario | None = None
    divergence: Divergence | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", printable(self.message))  # the message may quote the learner's code


class GroupResult(TypedDict):
    """The points of a group, and the status of each of its situations."""

    title: str
    points: float
    max: int
    situations: list[str]


class PhaseResult(TypedDict):
    """The result of one phase on its own. `sha256` is None if there is no file; `error` states why no situation was
    run."""

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
    """One submission, without times, so that identical runs give identical results."""

    name: str
    error: str | None
    points: float
    max: int
    together: Together
    phases: list[PhaseResult]


@dataclass(frozen=True)
class ClassResults:
    """The results of a run. `jailed` is true if submissions were isolated from the rest of the machine.

    `vivas` and `tests` map names to points, out of `MAX_VIVA` and `max_tests`; each is None if the run has none.
    """

    seed: str
    per_group: int
    jailed: bool
    submissions: list[SubmissionResult]
    vivas: dict[str, int] | None = None
    tests: dict[str, int] | None = None
    max_tests: int = 0

    @property
    def extras(self) -> list[tuple[str, int, dict[str, int]]]:
        """The name, maximum and points of each column that does not belong to a phase."""
        columns = (("viva", MAX_VIVA, self.vivas), ("tests", self.max_tests, self.tests))
        return [(name, most, points) for name, most, points in columns if points is not None]

    def as_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "situations_per_group": self.per_group,
            "isolated": self.jailed,
            "submissions": self.submissions,
            **({} if self.vivas is None else {"vivas": self.vivas}),
            **({} if self.tests is None else {"tests": self.tests}),
        }


@dataclass
class SubmissionGrade:
    """One submission during grading, with the data for its feedback.

    `failures` contains, for each group, the first outcome that is not right, keyed by phase and title. `together`
    contains the outcomes of running all written phases up to `together_up_to` in one engine.
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
    """Return a group's result, with points proportional to the number of situations that were right."""
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
    """Return a group's unrounded points, for use in sums."""
    return group["max"] * group["situations"].count("right") / len(group["situations"])


def rounded(points: float) -> float:
    return round(points + 1e-9, 2)


def is_played(phase: PhaseResult) -> bool:
    """Return whether any of a phase's situations was run."""
    return any(status != "not played" for group in phase["groups"] for status in group["situations"])


def is_written(phase: PhaseResult) -> bool:
    """Return whether the phase can be loaded and at least one situation used written code."""
    statuses = {status for group in phase["groups"] for status in group["situations"]}
    return not phase["error"] and statuses != {"not written"}
