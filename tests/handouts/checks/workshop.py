"""Functions for checking `docs/workshop.md`: its timetable, and its tasks."""

import re
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[3]
ROW = re.compile(r"^\| (\d+) \| (\d+) \|", re.MULTILINE)
TASK = re.compile(r"^### Task 1\.[12] .*\((\d+) lines?, (\d+) minutes\)$", re.MULTILINE)


def workshop_minutes() -> int:
    """Return when the last part ends. Raises `ValueError` if a part does not begin when the previous one ends."""
    text = (ROOT / "docs" / "workshop.md").read_text("utf-8")
    rows = [(int(start), int(length)) for start, length in ROW.findall(text)]
    for (start, length), (following, _) in pairwise(rows):
        if start + length != following:
            raise ValueError(f"a part ends at minute {start + length}, but the next one begins at {following}")
    return sum(rows[-1])


def tasks() -> list[tuple[str, str]]:
    [handout] = ROOT.glob("labs/phase1_*/README.md")
    found: list[tuple[str, str]] = TASK.findall(handout.read_text("utf-8"))
    return found


def first_task() -> int:
    """Return the number of lines in task 1.1."""
    return int(tasks()[0][0])


def second_task() -> int:
    """Return the number of minutes for task 1.2."""
    return int(tasks()[1][1])
