"""Stores a graded test's failure in parts, from which the terminal and the notebook build their reports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from _pytest.outcomes import Failed as TestFailed


@dataclass(frozen=True)
class Shares:
    """The tokens that each request computes in a step, expected and yours, and the budget."""

    expected: Mapping[str, int]
    yours: Mapping[str, int]
    budget: int


@dataclass(frozen=True)
class Failure:
    """The broken rule, the situation before the call, and (name, expected, yours) for each comparison.

    A notebook draws `shares` if the test planned a step.
    """

    rule: str
    situation: Sequence[str]
    rows: Sequence[tuple[str, str, str]]
    calls: Sequence[str]
    hint: str
    shares: Shares | None = None


class Report(str):
    """The text of a failure together with its parts; empty if there is no failure."""

    parts: Failure | None = None

    @classmethod
    def of(cls, text: str, parts: Failure) -> "Report":
        report = cls(text)
        report.parts = parts
        return report


class Failed(TestFailed):
    """pytest's failure, extended with the parts of its text."""

    __module__ = "builtins"  # like pytest's own class, so that a summary calls it `Failed`

    def __init__(self, text: str, parts: Failure | None) -> None:
        super().__init__(text, pytrace=False)
        self.parts = parts


def parts_of(error: BaseException) -> Failure | None:
    """Return the parts of a graded test's failure, or None for other errors."""
    return error.parts if isinstance(error, Failed) else None
