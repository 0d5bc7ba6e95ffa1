"""Results of a small class, by hand, with the names that a hostile learner would choose."""

from classroom.judge.groups import TEST_GROUPS
from classroom.judge.record import Result
from classroom.judge.summary import GroupSummary, PhaseSummary, Report, SubmissionSummary

HOSTILE = (
    '=HYPERLINK("http://x","y")',
    "@SUM(A1)",
    "<script>alert(1)</script>",
    '"onmouseover=alert(1) x="',
    "Points Possible",
    "[/boom] \x1b[2J \u202e",
)


def phase(number: int, *shares: float, error: str | None = None, file: bool = True) -> PhaseSummary:
    """Return a phase of four situations in each group, of which the shares are right; the last share repeats."""
    groups: list[GroupSummary] = []
    for index, group in enumerate(group for group in TEST_GROUPS if group.phase == number):
        share = shares[min(index, len(shares) - 1)] if shares else 0.0
        right = round(4 * share)
        statuses = ["right"] * right + ["wrong"] * (4 - right)
        groups.append(
            {"title": group.title, "points": group.points * right / 4, "max": group.points, "situations": statuses}
        )
    most = sum(group["max"] for group in groups)
    is_played = file and not error
    return {
        "phase": number,
        "sha256": "0" * 64 if file else None,
        "error": error if file else "no file for this phase",
        "points": sum(group["points"] for group in groups) if is_played else 0.0,
        "max": most,
        "groups": groups if is_played else [],
    }


def submission(name: str, *phases: PhaseSummary, error: str | None = None) -> SubmissionSummary:
    """Return a submission of these phases."""
    return {
        "name": name,
        "error": error,
        "points": sum(phase["points"] for phase in phases),
        "max": sum(phase["max"] for phase in phases),
        "together": {"up_to_phase": 1, "status": "pass"},
        "phases": list(phases),
    }


def small_class() -> Report:
    """Return eight submissions of two phases, six of them with hostile names."""
    shares = [(1.0, 1.0), (1.0, 0.5), (0.5, 0.0), (0.25, 0.25), (0.0, 0.75), (1.0, 0.0)]
    found = [
        submission(name, phase(1, first), phase(3, first, second))
        for name, (first, second) in zip(HOSTILE, shares, strict=True)
    ]
    found.append(submission("ada", phase(1, 1.0), phase(3, file=False)))
    found.append(submission("bob", phase(1, error="SyntaxError: <b>in line 3"), phase(3, 1.0, 0.0)))
    return Report("the-secret-seed", 4, True, found)


def result(summary: SubmissionSummary, feedback: str = "ada: 10 of 40 points\n") -> Result:
    """Return a result with this summary."""
    return {"summary": summary, "feedback": feedback, "seconds": 12.6, "digests": {}}
