"""CSV files for the gradebooks of Canvas and Moodle: a line per submission with a student id, a column per phase.

No name from a submission is in them: Canvas looks for a student of that name where it does not know the id, and takes
a line called "Points Possible" for the maxima.
"""

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from classroom.export.roster import Roster, read_roster
from classroom.judge.report import write_whole
from classroom.judge.summary import Report, SubmissionSummary
from mini_vllm.assembly.lineup import ALL_NAMES

CANVAS_IDS = ("ID", "SIS User ID", "SIS Login ID")
CANVAS = ["Student", *CANVAS_IDS, "Section"]


@dataclass(frozen=True)
class Gradebooks:
    """The files to write, and whose ids are in them."""

    roster: Roster
    canvas: Path | None
    moodle: Path | None

    @classmethod
    def wanted(cls, roster: Path | None, canvas: Path | None, moodle: Path | None) -> "Gradebooks | None":
        """Return what the options ask for. Raises `ValueError` if they do not go together or the roster is none."""
        if roster is None and canvas is None and moodle is None:
            return None
        if roster is None:
            raise ValueError("--canvas and --moodle need the student ids: --roster FILE")
        if canvas is None and moodle is None:
            raise ValueError("--roster alone writes nothing: add --canvas FILE or --moodle FILE")
        found = read_roster(roster)
        if canvas is not None:
            require_canvas_ids(found)
        return cls(found, canvas, moodle)

    def write(self, report: Report) -> list[str]:
        """Write the files; return a sentence for each submission that is not in them."""
        if self.canvas is not None:
            write_whole(self.canvas, as_canvas(report, self.roster))
        if self.moodle is not None:
            write_whole(self.moodle, as_moodle(report, self.roster))
        return [
            f"{one['name']}: {'not in the roster' if one['name'] not in self.roster.ids else 'not read'}"
            for one in report.submissions
            if one["error"] or one["name"] not in self.roster.ids
        ]


def require_canvas_ids(roster: Roster) -> None:
    """Raise `ValueError` if the ids are not of a kind that Canvas finds students by."""
    if roster.id_name not in CANVAS_IDS:
        raise ValueError(f"the roster's second column is {roster.id_name!r}; Canvas knows {', '.join(CANVAS_IDS)}")


def as_canvas(report: Report, roster: Roster) -> str:
    """Return the columns of Canvas's gradebook. Raises `ValueError` if the ids are not of Canvas's kinds."""
    require_canvas_ids(roster)
    phases = report.submissions[0]["phases"] if report.submissions else []
    place = CANVAS.index(roster.id_name)
    rows = [
        [*CANVAS, *assignments(report)],
        ["    Points Possible", *[""] * (len(CANVAS) - 1), *[str(phase["max"]) for phase in phases]],
    ]
    for student, summary in graded(report, roster):
        head = [student, *[""] * (len(CANVAS) - 1)]
        head[place] = student
        rows.append([*head, *points(summary)])
    return as_text(rows)


def as_moodle(report: Report, roster: Roster) -> str:
    """Return columns for Moodle's grade import, where the teacher says which one names the user."""
    rows = [[roster.id_name, *assignments(report)]]
    rows += [[student, *points(summary)] for student, summary in graded(report, roster)]
    return as_text(rows)


def assignments(report: Report) -> list[str]:
    """Return the heading of each phase: the name of the assignment."""
    phases = report.submissions[0]["phases"] if report.submissions else []
    return [f"mini-vLLM phase {phase['phase']}: {ALL_NAMES[phase['phase'] - 1]}" for phase in phases]


def graded(report: Report, roster: Roster) -> list[tuple[str, SubmissionSummary]]:
    """Return the submissions of the roster, each with its student's id; those that could not be read have no points."""
    return [
        (roster.ids[one["name"]], one) for one in report.submissions if one["name"] in roster.ids and not one["error"]
    ]


def points(summary: SubmissionSummary) -> list[str]:
    return [f"{phase['points']:g}" for phase in summary["phases"]]


def as_text(rows: list[list[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows(rows)
    return out.getvalue()
