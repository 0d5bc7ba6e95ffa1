"""The verdict of the graded tests on one implementation."""

from dataclasses import dataclass, field
from typing import Literal

REPORT_CHARACTERS = 1500  # a longer report is cut to its start, which contains the rule, and its end
START = REPORT_CHARACTERS // 3
Outcome = Literal["passed", "failed", "endless", "died", "not run"]


@dataclass(slots=True)
class Verdict:
    """The outcome of one run of a phase's graded tests.

    `endless` means that a test used up its processor time. `died` means that the process exited in the middle of a
    test. `not run` means that there is no proof that the tests used the code under test. For each failed test,
    `answers` contains the digest of its wrong answer, and `reports` its shortened report.
    """

    outcome: Outcome
    num_passed: int = 0
    failed: list[str] = field(default_factory=list)
    detail: str = ""
    answers: dict[str, str] = field(default_factory=dict)
    reports: dict[str, str] = field(default_factory=dict)

    @property
    def is_caught(self) -> bool:
        """Whether the tests used the code and rejected it."""
        return self.outcome in ("failed", "endless", "died")

    def describe(self) -> str:
        """Return the verdict as one line: the first failed test, and the number of failures."""
        first = self.failed[0] if self.failed else "no test"
        match self.outcome:
            case "passed":
                return f"{self.num_passed} tests pass"
            case "failed" if len(self.failed) > 1:
                return f"{len(self.failed)} tests, first {first}"
            case "failed":
                return first
            case "endless":
                return f"endless loop in {first}"
            case "died":
                return f"process died in {first}: {self.detail}"
        return f"NOT RUN: {self.detail}"


def shortened(report: str) -> str:
    """Return a report shortened to `REPORT_CHARACTERS`, by keeping its start and its end."""
    return report if len(report) <= REPORT_CHARACTERS else report[:START] + report[START - REPORT_CHARACTERS :]
