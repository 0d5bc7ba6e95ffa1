"""One submission, graded where another system has put it."""

import json
from pathlib import Path
from typing import Any

from classroom.judge.grading_process import GradingProcess
from classroom.judge.jail import find_jail
from classroom.judge.probe import require_jail
from classroom.judge.record import Result
from classroom.judge.settings import Settings
from classroom.judge.submission import HandedIn

SETTINGS_FILE = "judge_settings.json"


def grade_submission(path: Path, name: str, settings: Settings) -> Result:
    """Grade a file, a folder or an archive.

    Raises `JailError` if the settings ask for a jail that does not work, and `GraderError` if the judge itself fails:
    neither says anything about the submission.
    """
    if settings.jailed:
        require_jail(find_jail())
    grader = GradingProcess(settings)
    try:
        return grader.grade(grader.read(HandedIn(name, path)))
    finally:
        grader.end()


def read_settings(path: Path) -> dict[str, Any]:
    """Return the content of a settings file: `settings` of the judge, and what else a system keeps there."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content
