"""The roster: which student id belongs to which submission, from a CSV file of the teacher."""

import csv
from dataclasses import dataclass
from pathlib import Path

from classroom.judge.report import FORMULA

FIRST_COLUMN = "submission"
HOW = f"two columns: {FIRST_COLUMN!r}, and the id under its name in the gradebook, such as 'SIS User ID' or 'ID number'"


@dataclass(frozen=True)
class Roster:
    """Ids by the name of the submission; `id_name` heads their column."""

    id_name: str
    ids: dict[str, str]


def read_roster(path: Path) -> Roster:
    """Read a roster. Raises `ValueError` if it is none, if a name or an id is there twice, or an id is a formula."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeError) as error:
        raise ValueError(f"--roster {path} cannot be read as UTF-8 text: {error}") from None
    separator = ";" if lines and ";" in lines[0] and "," not in lines[0] else ","
    rows = [[cell.strip() for cell in row] for row in csv.reader(lines, delimiter=separator) if any(row)]
    if not rows or len(rows[0]) != 2 or rows[0][0].lower() != FIRST_COLUMN or not rows[0][1]:
        raise ValueError(
            f"--roster {path} must have {HOW}; its first line is {', '.join(rows[0]) if rows else 'empty'!r}"
        )
    ids: dict[str, str] = {}
    for number, row in enumerate(rows[1:], 2):
        if len(row) != 2 or not all(row):
            raise ValueError(f"--roster {path}, entry {number}: it must be a name and an id")
        name, student = row
        if name in ids or student in ids.values():
            raise ValueError(f"--roster {path}, entry {number}: {name!r} or {student!r} is there twice")
        if student.startswith(FORMULA) or not student.isprintable():
            raise ValueError(f"--roster {path}, entry {number}: a spreadsheet takes the id {student!r} for a formula")
        ids[name] = student
    return Roster(rows[0][1], ids)
