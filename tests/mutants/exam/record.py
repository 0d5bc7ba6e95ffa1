"""`python -m tests.mutants.exam.record --phase N`: run mutants of a phase, and record what an exam asks about them."""

import argparse
import json
import os
import re
from random import Random

from tests.mutants.catalog import Subject, mutants, reference
from tests.mutants.exam.bank import FOLDER, NUM_OPTIONS, PHASES, Recorded
from tests.mutants.exam.excerpt import excerpt
from tests.mutants.harness import harness
from tests.mutants.record import CPU_SECONDS
from tests.mutants.verdict import REPORT_CHARACTERS, Verdict

NUM_TRIED, MOST_LINES, MOST_COLUMNS = 34, 16, 130
REPORT = re.compile(r"\A.*?\n\n(.*)\nHint: ", re.DOTALL)
AS_EXPECTED = re.compile(r"^  .*(as expected  )")


def main() -> None:
    """Write the banks of the phases, and say how many questions each has."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants.exam.record", description=__doc__)
    parser.add_argument("--phase", type=int, action="append", choices=PHASES, dest="phases", help="only this phase")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at once (default: all cores)")
    options = parser.parse_args()
    with harness(options.jobs) as workers:
        for phase in options.phases or PHASES:
            subjects = candidates(phase)
            verdicts = workers.examine(subjects, stop_at_first=False, cpu_seconds=CPU_SECONDS)
            bank = bank_of({one.name: verdict for one, verdict in zip(subjects, verdicts, strict=True)})
            text = json.dumps(bank, indent=1, ensure_ascii=False)
            (FOLDER / f"phase{phase}.json").write_text(text + "\n", encoding="utf-8")
            print(f"phase {phase}: {len(bank)} questions of {len(subjects)} mutants")


def candidates(phase: int) -> list[Subject]:
    """Return mutants that an excerpt shows, one for each hint, as many as are tried."""
    by_hint = dict[str, Subject]()
    right = reference(phase).text
    for subject in mutants(phase):
        if subject.hint and 0 < len(excerpt(right, subject.text)) <= MOST_LINES:
            by_hint.setdefault(subject.hint, subject)
    found = list(by_hint.values())
    return Random(phase).sample(found, min(NUM_TRIED, len(found)))


def bank_of(verdicts: dict[str, Verdict]) -> dict[str, Recorded]:
    """Return a short run for each mutant that has one; none if too few options would be left beside it."""
    bank = dict[str, Recorded]()
    for name, verdict in verdicts.items():
        alike = [
            other for other, one in verdicts.items() if other != name and one.answers.items() & verdict.answers.items()
        ]
        runs = [(test, shown(report)) for test, report in verdict.reports.items() if len(report) < REPORT_CHARACTERS]
        found = [Recorded(test=test, run=run, alike=alike) for test, run in runs if is_short(run)]
        if found:
            bank[name] = min(found, key=lambda one: ("[" in one["test"], len(one["run"]), one["test"]))
    known = {name: one for name, one in bank.items() if len(bank) - len(one["alike"]) >= 2 * NUM_OPTIONS}
    return {name: {**one, "alike": [other for other in one["alike"] if other in known]} for name, one in known.items()}


def shown(report: str) -> list[str]:
    """Return the situation and what differs in the report of a graded test: not its rule, its calls and its hint."""
    found = REPORT.match(report)
    body = found[1].partition("\n  your calls, in order:")[0] if found else ""
    lines = [line.replace("    <-- differs", "").rstrip() for line in body.splitlines()]
    return [line for line in lines if not AS_EXPECTED.match(line)]


def is_short(run: list[str]) -> bool:
    return 0 < len(run) <= MOST_LINES and max(map(len, run)) <= MOST_COLUMNS


if __name__ == "__main__":
    main()
