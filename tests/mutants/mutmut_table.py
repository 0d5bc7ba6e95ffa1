"""The table of mutmut's mutants: made, caught, survivors on the reviewed list, and what is wrong."""

import time
from collections.abc import Mapping, Sequence

from tests.mutants.catalog import Subject, reference
from tests.mutants.harness import Harness
from tests.mutants.made_by_mutmut import as_diff, made_by_mutmut
from tests.mutants.survivors import Tally, reviewed, tally
from tests.mutants.verdict import Verdict


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
