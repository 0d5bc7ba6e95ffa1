"""The table of mutmut's mutants: made, caught, survivors on the reviewed list, and what is wrong.

The reviewed lists are `survivors/phaseN.diff`, written like the mutants of the catalog: a line of `#` with the reason
why no graded test should catch the mutant, and below it what changes. An entry stands for the mutated text of the
solution, so line numbers may move. An entry that no longer applies to the solution, that mutmut does not make, or that
a test catches by now, is stale, and an error.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutants.catalog import Subject, reference
from tests.mutants.diffs import DiffError, read_diffs
from tests.mutants.harness import Harness
from tests.mutants.made_by_mutmut import as_diff, made_by_mutmut
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


def try_mutmut(workers: Harness, phases: Sequence[int], only: str = "") -> bool:
    """Run the mutants of each phase and print the table; return whether every survivor is on the list."""
    start = time.monotonic()
    tallies: dict[int, Tally] = {}
    for phase in phases:
        made = made_by_mutmut(phase)
        selected = [subject for subject in made if only in subject.name]
        print(f"phase {phase}: trying {len(selected)} mutants", flush=True)
        verdicts = workers.examine(selected, stop_at_first=True)
        tallies[phase] = tally(made, zip(selected, verdicts, strict=True), reviewed(phase))
    num_made = sum(one.num_made for one in tallies.values())
    num_caught = sum(one.num_caught for one in tallies.values())
    print(report(tallies))
    print(
        f"{num_made} mutants: {num_caught} caught, {num_made - num_caught} survive ({time.monotonic() - start:.0f} s)"
    )
    for phase, one in tallies.items():
        for subject, verdict in one.unreviewed:
            print(f"\nphase {phase}: no graded test catches this mutant, and it is not on the reviewed list")
            print(_explained(subject, verdict))
        for complaint in one.stale:
            print(f"\nphase {phase}: an entry of the reviewed list is stale\n{complaint}")
    return num_made > 0 and all(one.is_well for one in tallies.values())


def report(tallies: Mapping[int, Tally]) -> str:
    """Return the table, a row per phase."""
    lines = ["\nphase   made by mutmut   caught   survivors: reviewed   not reviewed   stale entries"]
    lines += [
        f"{phase:5}   {one.num_made:14}   {one.num_caught:6}   {one.num_reviewed:19}   "
        f"{len(one.unreviewed):12}   {len(one.stale):13}"
        for phase, one in tallies.items()
    ]
    return "\n".join(lines)


def _explained(subject: Subject, verdict: Verdict) -> str:
    """Return a survivor in the form in which it would stand on the list."""
    if verdict.outcome != "passed":
        return f"{subject.name}\n{verdict.describe()}"
    return as_diff(reference(subject.phase).text, subject.text, "why no test needs to catch this")
