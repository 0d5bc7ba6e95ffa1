"""The reviewed list: mutants of mutmut that no graded test catches, each with the reason why none should.

The lists are `survivors/phaseN.diff`, written like the mutants of the catalog: a line of `#` with the reason,
and below it what changes. An entry stands for the mutated text of the solution, so line
numbers may move. An entry that no longer applies to the solution, that mutmut does not make, or that a test catches
by now, is stale, and an error.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutants.catalog import Subject, reference
from tests.mutants.diffs import DiffError, read_diffs
from tests.mutants.verdict import Verdict

FOLDER = Path(__file__).with_name("survivors")


def reviewed(phase: int) -> dict[str, str]:
    """Return the phase's list, mutated solution to reason."""
    return read_reviewed((FOLDER / f"phase{phase}.diff").read_text(encoding="utf-8"), reference(phase).text)


def read_reviewed(diffs: str, original: str) -> dict[str, str]:
    """Return a list, mutated text to reason. Raises `DiffError` if an entry does not fit or is listed twice."""
    reasons: dict[str, str] = {}
    for diff in read_diffs(diffs):
        text = diff.apply(original)
        if text in reasons:
            raise DiffError(f"{diff.name!r}: the same change is listed above, as {reasons[text]!r}")
        reasons[text] = diff.name
    return reasons


@dataclass(slots=True)
class Tally:
    """What became of one phase's mutants. `stale` are complaints about the list."""

    num_made: int = 0
    num_caught: int = 0
    num_reviewed: int = 0
    unreviewed: list[tuple[Subject, Verdict]] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)

    @property
    def is_well(self) -> bool:
        """Whether every survivor was reviewed and the list is in order."""
        return not self.unreviewed and not self.stale


def tally(made: Iterable[Subject], judged: Iterable[tuple[Subject, Verdict]], reasons: Mapping[str, str]) -> Tally:
    """Compare the verdicts with the list. `judged` may be a part of what was made."""
    texts = {subject.text for subject in made}
    not_made = [reason for text, reason in reasons.items() if text not in texts]
    result = Tally(stale=[f"{reason!r}: mutmut makes no such mutant" for reason in not_made])
    for subject, verdict in judged:
        result.num_made += 1
        result.num_caught += verdict.is_caught
        if subject.text not in reasons:
            if not verdict.is_caught:
                result.unreviewed.append((subject, verdict))
        elif verdict.outcome == "passed":
            result.num_reviewed += 1
        else:
            result.stale.append(f"{reasons[subject.text]!r}: {verdict.describe()}")
    return result
