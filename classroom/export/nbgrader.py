"""nbgrader: a course folder with an assignment per phase, a notebook to hand the phase in with.

The cells' metadata is version 3 of nbgrader's schema (`nbgrader/nbgraderformat/v3.json`).
"""

import json
from pathlib import Path
from typing import Any

from classroom.export.one_submission import SETTINGS_FILE
from classroom.judge.settings import Settings
from classroom.student_edition.edition import require_untouched_starters
from course.grading.plan import PlannedPhase, load_plan
from mini_vllm.assembly.lineup import CHECKOUT

SCHEMA_VERSION = 3
CONFIG = """\
c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "mini-vllm-labs"
c.Execute.timeout = {seconds}  # one cell plays all situations of a phase
"""
ABOUT = """\
# Phase {number}: {name}

Write the phase in the course: `{starter}`. Check it there with `mini-vllm grade --phase {number}`.

To hand it in, copy the whole file into the next cell, below its first line. The last cell is for your teacher: {points}
points, on situations that you have not seen."""
GRADED = """\
# {points} points: plays phase {number} on secret situations when your teacher grades it.
### BEGIN HIDDEN TESTS
from classroom.export.nbgrader_cell import judge_points

judge_points({number})
### END HIDDEN TESTS"""


def compose(settings: Settings, checkout: Path = CHECKOUT) -> dict[str, str]:
    """Return the course folder, path to text. It holds the seed and no solution; learners get `release/` alone."""
    require_untouched_starters(checkout)
    seconds = round(60 * settings.minutes) + 60
    kept = {"settings": settings.as_json()}
    files = {"nbgrader_config.py": CONFIG.format(seconds=seconds), SETTINGS_FILE: json.dumps(kept, indent=1) + "\n"}
    for phase in load_plan():
        if phase.number in settings.phases:
            starter = (checkout / phase.starter).read_text(encoding="utf-8")
            text = json.dumps(notebook(phase, starter), indent=1, ensure_ascii=False) + "\n"
            files[f"source/phase{phase.number}/phase{phase.number}.ipynb"] = text
    return files


def notebook(phase: PlannedPhase, starter: str) -> dict[str, Any]:
    """Return the source notebook of a phase: what to do, the file to fill in, the graded cell."""
    number, name = phase.number, f"phase{phase.number}"
    facts = {"number": number, "name": phase.name, "starter": phase.starter, "points": phase.points}
    file = {"nbgrader": marks(f"{name}-about", points=None)}
    graded = {"nbgrader": marks(f"{name}-points", points=phase.points)}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": [
            {"cell_type": "markdown", "id": "about", "metadata": file, "source": ABOUT.format(**facts)},
            code_cell("file", {}, f"%%writefile {name}.py\n{starter}"),
            code_cell("points", graded, GRADED.format(**facts)),
        ],
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def code_cell(cell_id: str, metadata: dict[str, Any], source: str) -> dict[str, Any]:
    """Return a cell that has not run."""
    cell = {"cell_type": "code", "id": cell_id, "metadata": metadata, "source": source}
    return cell | {"execution_count": None, "outputs": []}


def marks(grade_id: str, points: int | None) -> dict[str, Any]:
    """Return nbgrader's metadata of a cell that learners cannot edit: graded by its result, or for reading."""
    found = {"schema_version": SCHEMA_VERSION, "grade_id": grade_id, "locked": True, "solution": False, "task": False}
    return found | ({"grade": False} if points is None else {"grade": True, "points": points})
