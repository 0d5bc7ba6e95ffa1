"""Gradescope: the `results.json` of one submission.

Fields and values are those of gradescope-autograders.readthedocs.io/en/latest/specs.
"""

from typing import Any, Literal

from classroom.judge.record import Result
from classroom.judge.summary import GroupSummary, PhaseSummary
from classroom.worker.text import printable

Visibility = Literal["visible", "after_due_date", "after_published", "hidden"]
MAX_OUTPUT = 500_000


def as_gradescope(result: Result, visibility: Visibility = "visible") -> dict[str, Any]:
    """Return what Gradescope shows: a test per group, and the judge's text as a last one, worth nothing."""
    summary = result["summary"]
    tests = [test for phase in summary["phases"] for test in tests_of(phase)]
    text = {"name": "What went wrong", "output": printable(result["feedback"], MAX_OUTPUT)}
    return {
        "score": summary["points"],
        "execution_time": round(result["seconds"]),
        "output": printable(summary["error"] or ""),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": visibility,
        "stdout_visibility": "hidden",
        "tests": [*tests, text],
    }


def tests_of(phase: PhaseSummary) -> list[dict[str, Any]]:
    """Return a test per group; of a phase that could not be played, one with the reason."""
    number = phase["phase"]
    if not phase["groups"]:
        name, reason = f"Phase {number}", printable(phase["error"] or "not played")
        return [one_test(f"{number}", name, phase["points"], phase["max"], reason)]
    return [
        one_test(f"{number}.{index}", f"Phase {number}: {group['title']}", group["points"], group["max"], say(group))
        for index, group in enumerate(phase["groups"], 1)
    ]


def one_test(number: str, name: str, points: float, most: int, output: str) -> dict[str, Any]:
    """Return a test as Gradescope has it."""
    status = "passed" if points == most else "failed"
    return {"number": number, "name": name, "score": points, "max_score": most, "status": status, "output": output}


def say(group: GroupSummary) -> str:
    """Return how many situations were right, and what the others were."""
    statuses = group["situations"]
    text = f"{statuses.count('right')} of {len(statuses)} situations right"
    others = [status for status in dict.fromkeys(statuses) if status != "right"]
    return text + "".join(f", {statuses.count(status)} {status}" for status in others)
