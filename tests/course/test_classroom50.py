"""Classroom 50's autograder, run as its runner does, against the fields of its result-v1 schema."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from classroom.export.classroom50_autograder import __file__ as autograder
from classroom.export.classroom50_autograder import as_result
from course.starter_status import starter_path
from tests.course.surface import solution_path

RUNNER = {
    "CLASSROOM": "cs50",
    "ASSIGNMENT": "phase1",
    "SUBMISSION_TAG": "submit/2026-11-22T12-00-00Z-abc1234",
    "COMMIT_URL": "https://example.org/commit",
    "RELEASE_URL": "https://example.org/release",
}
TEXTS = {"schema", "classroom", "assignment", "submission", "commit", "release", "review", "datetime"}


def require_documented(found: dict[str, Any]) -> None:
    """Fail unless this is what the schema asks of an autograder; the runner adds `owner` and `assignment_type`."""
    assert set(found) == {*TEXTS, "score", "max-score", "tests"}
    assert all(isinstance(found[name], str) and found[name] for name in TEXTS)
    assert found["schema"] == "classroom50/result/v1"
    assert found["submission"].startswith("submit/")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found["datetime"])
    for part in [found, *found["tests"]]:
        assert type(part["score"]) is type(part["max-score"]) is int
        assert 0 <= part["score"] <= part["max-score"]
    for test in found["tests"]:
        assert set(test) == {"test-name", "passed", "score", "max-score"}
        assert isinstance(test["passed"], bool)
        assert not test["passed"] or test["score"] == test["max-score"]


def test_points_are_whole_and_never_rounded_up() -> None:
    tasks = [
        {"task": "1.1", "status": "passed", "points": 10.0, "max": 10},
        {"task": "1.2", "status": "failed", "points": 9.97, "max": 10},
        {"task": "1.3", "status": "error", "points": 0.0, "max": 10},
    ]
    found = as_result({"phases": [{"tasks": tasks}]}, RUNNER)
    require_documented(found)
    assert [test["score"] for test in found["tests"]] == [10, 9, 0]
    assert (found["score"], found["max-score"], found["review"]) == (19, 30, "https://example.org/commit")


@pytest.mark.parametrize("text", [None, "this is no Python"])
def test_it_grades_a_learners_checkout(learner: Path, text: str | None) -> None:
    script = learner.parent / "autograder.py"
    shutil.copy(autograder, script)
    script.write_text(script.read_text(encoding="utf-8").replace('PHASES = ""', 'PHASES = "1"'), encoding="utf-8")
    (learner / ".venv" / "bin").mkdir(parents=True)
    (learner / ".venv" / ".ready").touch()
    python = learner / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    content = solution_path(1).read_text(encoding="utf-8") if text is None else text
    starter_path(1, learner).write_text(content, encoding="utf-8")
    kept = {k: v for k, v in os.environ.items() if k not in ("LAB_IMPL", "PYTHONPATH") and not k.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, str(script)], cwd=learner, env=kept | RUNNER, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads((learner / "result.json").read_text(encoding="utf-8"))
    require_documented(found)
    assert (found["score"], found["max-score"]) == (40 if text is None else 0, 40)
