"""What a graded test found, as parts: the report in the terminal is made of them, and so is that of a notebook."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from _pytest.outcomes import Failed as TestFailed


@dataclass(frozen=True)
class Shares:
    """How many tokens each request computes in a step, as expected and as found, of a budget."""

    expected: Mapping[str, int]
    yours: Mapping[str, int]
    budget: int


@dataclass(frozen=True)
class Failure:
    """The rule that was broken, how things stood before, and (name, expected, yours) for all that was compared.

    `shares` draws the plans of a step, where the test has one.
    """

    rule: str
    situation: Sequence[str]
    rows: Sequence[tuple[str, str, str]]
    calls: Sequence[str]
    hint: str
    shares: Shares | None = None


class Report(str):
    """The text of a failure, with its parts; empty text if there is none."""

    parts: Failure | None = None

    @classmethod
    def of(cls, text: str, parts: Failure) -> "Report":
        report = cls(text)
        report.parts = parts
        return report


class Failed(TestFailed):
    """pytest's failure, with the parts of its text."""

    __module__ = "builtins"  # as pytest's own, so that a summary names it `Failed`

    def __init__(self, text: str, parts: Failure | None) -> None:
        super().__init__(text, pytrace=False)
        self.parts = parts


def parts_of(error: BaseException) -> Failure | None:
    """Return the parts of a graded test's failure, None for other errors."""
    return error.parts if isinstance(error, Failed) else None
