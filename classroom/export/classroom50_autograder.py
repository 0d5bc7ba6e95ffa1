"""Classroom 50: copy this file to the assignment as its `autograder.py`. It needs nothing but Python 3.11 or newer.

Classroom 50 runs it in the learner's checkout of the student edition. It grades as `mini-vllm grade` does and writes
`result.json` in the form of schemas/result-v1.schema.json of foundation50/classroom50; the runner adds the owner. An
exit code other than 0 means that nothing could be graded, never that points are missing.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

PHASES = ""  # what this assignment grades: "1", "1-3", or all if it is empty


def main() -> None:
    """Install the course, grade it, write the result."""
    if not Path(".venv/.ready").exists():
        subprocess.run([sys.executable, "-c", "import lab; lab.set_up('cpu')"], check=True)
    command = [".venv/bin/python", "-m", "cli", "grade", "--json", *(["--phase", PHASES] if PHASES else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    result = as_result(json.loads(done.stdout), os.environ)
    Path("result.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def as_result(grade: Mapping[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the result: a test per task, in whole points, rounded down. Raises `KeyError` without the runner."""
    tests = [as_test(task) for phase in grade["phases"] for task in phase["tasks"]]
    return {
        "schema": "classroom50/result/v1",
        "classroom": environment["CLASSROOM"],
        "assignment": environment["ASSIGNMENT"],
        "submission": environment["SUBMISSION_TAG"],
        "commit": environment["COMMIT_URL"],
        "release": environment["RELEASE_URL"],
        "review": environment.get("REVIEW_URL") or environment["COMMIT_URL"],
        "datetime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "score": sum(test["score"] for test in tests),
        "max-score": sum(test["max-score"] for test in tests),
        "tests": tests,
    }


def as_test(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return a task as a test."""
    passed = task["status"] == "passed"
    return {
        "test-name": f"task {task['task']}",
        "passed": passed,
        "score": int(task["points"]),
        "max-score": task["max"],
    }


if __name__ == "__main__":
    main()
