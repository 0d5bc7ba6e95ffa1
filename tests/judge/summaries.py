"""Handwritten results of a small class, with names that a hostile learner would choose."""

from mini_vllm_labs.classroom.judge.class_run import RecordedResult
from mini_vllm_labs.classroom.judge.groups import TEST_GROUPS
from mini_vllm_labs.classroom.judge.results import ClassResults, GroupResult, PhaseResult, SubmissionResult

HOSTILE = (
    '=HYPERLINK("http://x","y")',
    "@SUM(A1)",
    "<script>alert(1)</script>",
    '"onmouseover=alert(1) x="',
    "Points Possible",
    "[/boom] \x1b[2J \u202e",
)


def phase(number: int, *shares: float, error: str | None = None, file: bool = True) -> PhaseResult:
    """Return a phase with four situations per group; `shares` gives the correct fraction in each group (last value
    repeats)."""
    groups: list[GroupResult] = []
    is_played = file and not error
    for index, group in enumerate(group for group in TEST_GROUPS if group.phase == number):
        right = round(4 * shares[min(index, len(shares) - 1)]) if is_played else 0
        statuses = ["right"] * right + ["wrong" if is_played else "not played"] * (4 - right)
        groups.append(
            {"title": group.title, "points": group.points * right / 4, "max": group.points, "situations": statuses}
        )
    return {
        "phase": number,
        "sha256": "0" * 64 if file else None,
        "error": error if file else "not handed in",
        "points": sum(group["points"] for group in groups),
        "max": sum(group["max"] for group in groups),
        "groups": groups,
    }


def submission(name: str, *phases: PhaseResult, error: str | None = None) -> SubmissionResult:
    return {
        "name": name,
        "error": error,
        "points": sum(phase["points"] for phase in phases),
        "max": sum(phase["max"] for phase in phases),
        "together": {"up_to_phase": 1, "status": "pass"},
        "phases": list(phases),
    }


def small_class() -> ClassResults:
    """Return eight submissions of two phases, six of them with hostile names."""
    shares = [(1.0, 1.0), (1.0, 0.5), (0.5, 0.0), (0.25, 0.25), (0.0, 0.75), (1.0, 0.0)]
    found = [
        submission(name, phase(1, first), phase(3, first, second))
        for name, (first, second) in zip(HOSTILE, shares, strict=True)
    ]
    found.append(submission("ada", phase(1, 1.0), phase(3, file=False)))
    found.append(submission("bob", phase(1, error="SyntaxError: <b>in line 3"), phase(3, 1.0, 0.0)))
    return ClassResults("the-secret-seed", 4, True, found)


def result(summary: SubmissionResult, feedback: str = "ada: 10 of 40 points\n") -> RecordedResult:
    return {"summary": summary, "feedback": feedback, "seconds": 12.6, "digests": {}}
