"""Writes CSV files for the gradebooks of Canvas and Moodle, with one row per student and one column per phase.

The files contain no names from submissions. If Canvas cannot find an id, it searches for a student by name. Canvas
treats a row named "Points Possible" as the maximum points. The roster, a CSV file from the teacher, maps submissions to
ids.
"""

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from mini_vllm.assembly.lineup import ALL_NAMES
from mini_vllm_labs.classroom.judge.report import FORMULA, extra_cells, write_all
from mini_vllm_labs.classroom.judge.results import ClassResults

FIRST_COLUMN = "submission"
CANVAS_IDS = ("ID", "SIS User ID", "SIS Login ID")
CANVAS = ["Student", *CANVAS_IDS, "Section"]
HOW = f"two columns: {FIRST_COLUMN!r}, and the id under its name in the gradebook, such as 'SIS User ID' or 'ID number'"


@dataclass(frozen=True)
class Roster:
    """Student ids keyed by submission name; `id_name` is the heading of their column."""

    id_name: str
    ids: dict[str, str]


def read_roster(path: Path) -> Roster:
    """Read a roster.

    Raises `ValueError` if the roster is invalid, repeats a name or id, or has an id that looks like a formula.
    """
    if path.exists() and not path.is_file():
        raise ValueError(f"--roster {path} is not a regular file")
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeError) as error:
        raise ValueError(f"--roster {path} cannot be read as UTF-8 text: {error}") from None
    separator = ";" if lines and ";" in lines[0] and "," not in lines[0] else ","
    rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=separator) if any(row)]
    if not rows or len(rows[0]) != 2 or rows[0][0].lower() != FIRST_COLUMN or not rows[0][1]:
        raise ValueError(
            f"--roster {path} must have {HOW}, but its first line is {', '.join(rows[0]) if rows else 'empty'!r}"
        )
    ids: dict[str, str] = {}
    for number, row in enumerate(rows[1:], 2):
        if len(row) != 2 or not all(row):
            raise ValueError(f"--roster {path}, entry {number}: an entry must be a name and an id")
        name, student = row
        if name in ids or student in ids.values():
            raise ValueError(f"--roster {path}, entry {number}: {name!r} or {student!r} appears twice")
        if student.startswith(FORMULA) or not student.isprintable():
            raise ValueError(
                f"--roster {path}, entry {number}: a spreadsheet would read the id {student!r} as a formula"
            )
        ids[name] = student
    return Roster(rows[0][1], ids)


@dataclass(frozen=True)
class Gradebooks:
    """The gradebook files to write, and the roster that contains their ids."""

    roster: Roster
    canvas: Path | None
    moodle: Path | None

    @classmethod
    def wanted(cls, roster: Path | None, canvas: Path | None, moodle: Path | None) -> "Gradebooks | None":
        """Return the files that the options request. Raises `ValueError` for conflicting options or a bad roster."""
        if roster is None and canvas is None and moodle is None:
            return None
        if roster is None:
            raise ValueError("--canvas and --moodle need student ids: add --roster FILE")
        if canvas is None and moodle is None:
            raise ValueError("--roster alone writes nothing: add --canvas FILE or --moodle FILE")
        found = read_roster(roster)
        if canvas is not None and found.id_name not in CANVAS_IDS:
            raise ValueError(
                f"the roster's second column is {found.id_name!r}, but Canvas expects {', '.join(CANVAS_IDS)}"
            )
        return cls(found, canvas, moodle)

    def write(self, results: ClassResults) -> list[str]:
        """Write the files; return the reasons why some could not be written."""
        texts = {self.moodle: as_moodle(results, self.roster)}
        return write_all(texts | ({self.canvas: as_canvas(results, self.roster)} if self.canvas else {}))

    def left_out(self, results: ClassResults) -> list[str]:
        return [
            f"{one['name']}: {'not in the roster' if one['name'] not in self.roster.ids else 'not read'}"
            for one in results.submissions
            if one["error"] or one["name"] not in self.roster.ids
        ]


def as_canvas(results: ClassResults, roster: Roster) -> str:
    phases = results.submissions[0]["phases"] if results.submissions else []
    extras = [str(most) for _, most, _ in results.extras]
    place = CANVAS.index(roster.id_name)
    rows = [
        [*CANVAS, *assignments(results)],
        ["    Points Possible", *[""] * (len(CANVAS) - 1), *[str(phase["max"]) for phase in phases], *extras],
    ]
    for student, points in graded(results, roster):
        head = [student, *[""] * (len(CANVAS) - 1)]
        head[place] = student
        rows.append([*head, *points])
    return as_text(rows)


def as_moodle(results: ClassResults, roster: Roster) -> str:
    """Return CSV for Moodle's grade import, where the teacher selects the column that identifies the user."""
    students = [[student, *points] for student, points in graded(results, roster)]
    return as_text([[roster.id_name, *assignments(results)], *students])


def assignments(results: ClassResults) -> list[str]:
    """Return the headings for the phases, the viva and the tests; they are also the assignments' names."""
    phases = results.submissions[0]["phases"] if results.submissions else []
    names = [f"mini-vLLM phase {phase['phase']}: {ALL_NAMES[phase['phase'] - 1]}" for phase in phases]
    return [*names, *(f"mini-vLLM {name}" for name, *_ in results.extras)]


def graded(results: ClassResults, roster: Roster) -> list[tuple[str, list[str]]]:
    """Return the id and the points per phase of each readable submission that is in the roster."""
    return [
        (
            roster.ids[one["name"]],
            [*(f"{phase['points']:g}" for phase in one["phases"]), *map(str, extra_cells(results, one["name"]))],
        )
        for one in results.submissions
        if one["name"] in roster.ids and not one["error"]
    ]


def as_text(rows: list[list[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerows(rows)
    return out.getvalue()
