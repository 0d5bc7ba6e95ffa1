"""The results of a class as plain JSON: what a grading process reports, a record keeps, and every table is made of."""

from dataclasses import dataclass
from typing import Any, TypedDict

from classroom.judge.results import PhaseGrade, SubmissionGrade, shown_points


class GroupSummary(TypedDict):
    """A group of situations: the status of each."""

    title: str
    points: float
    max: int
    situations: list[str]


class PhaseSummary(TypedDict):
    """A phase; `sha256` is that of the file, None if there was none, and `error` why nothing could be played."""

    phase: int
    sha256: str | None
    error: str | None
    points: float
    max: int
    groups: list[GroupSummary]


class Together(TypedDict):
    """Whether the written phases work in one engine: "pass", "fail" or "-"."""

    up_to_phase: int
    status: str


class SubmissionSummary(TypedDict):
    """One submission, without times, so that equal runs give equal reports."""

    name: str
    error: str | None
    points: float
    max: int
    together: Together
    phases: list[PhaseSummary]


@dataclass(frozen=True)
class Report:
    """The results of a run. `jailed`: whether submissions were isolated from the machine."""

    seed: str
    per_group: int
    jailed: bool
    submissions: list[SubmissionSummary]

    def as_json(self) -> dict[str, Any]:
        """Return the report as one JSON object."""
        return {
            "seed": self.seed,
            "situations_per_group": self.per_group,
            "isolated": self.jailed,
            "submissions": self.submissions,
        }


def summary_of(grade: SubmissionGrade) -> SubmissionSummary:
    """Return the summary of a graded submission."""
    return {
        "name": grade.name,
        "error": grade.error or None,
        "points": shown_points(grade.points),
        "max": grade.max_points,
        "together": {"up_to_phase": grade.together_up_to, "status": grade.together_status},
        "phases": [_phase(phase) for phase in grade.phases],
    }


def _phase(phase: PhaseGrade) -> PhaseSummary:
    return {
        "phase": phase.number,
        "sha256": phase.sha256 or None,
        "error": phase.error or None,
        "points": shown_points(phase.points),
        "max": phase.max_points,
        "groups": [
            {
                "title": group.group.title,
                "points": shown_points(group.points),
                "max": group.group.points,
                "situations": [outcome.status for outcome in group.outcomes],
            }
            for group in phase.groups
        ],
    }


def is_written(phase: PhaseSummary) -> bool:
    """Return whether any of a phase was more than the untouched starter."""
    statuses = {status for group in phase["groups"] for status in group["situations"]}
    return not phase["error"] and statuses != {"not written"}
