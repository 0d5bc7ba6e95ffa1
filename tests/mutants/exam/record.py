"""Runs mutants of a phase, and stores the data for an exam about them under `build/`.

For some mutants, a bank contains a run in which the mutant is wrong, and a list of mutants that give the same wrong
answer to a graded test. The mutants in this list are never offered as options of the same question.
"""

import hashlib
import json
import os
import re
import sys
from random import Random
from typing import TypedDict

from tests.mutants.catalog import ROOT, Subject, mutants, reference
from tests.mutants.exam.excerpt import excerpt
from tests.mutants.harness import harness
from tests.mutants.record import CPU_SECONDS
from tests.mutants.verdict import REPORT_CHARACTERS, Verdict

FOLDER = ROOT / "build" / "exam" / "banks"
NUM_OPTIONS, NUM_TRIED, MOST_LINES, MOST_COLUMNS = 4, 34, 16, 130
REPORT = re.compile(r"\A.*?\n\n(.*)\nHint: ", re.DOTALL)
AS_EXPECTED = re.compile(r"^  .*(as expected  )")


class Recorded(TypedDict):
    """A wrong run: the graded test, its situation, the difference, and the mutants that fail identically."""

    test: str
    run: list[str]
    alike: list[str]


def recorded(phase: int) -> dict[str, Recorded]:
    """Return a phase's bank, keyed by mutant; run the mutants unless the bank matches the current files."""
    path = FOLDER / f"phase{phase}-{digest(phase)}.json"
    if not path.exists():
        print(f"running up to {NUM_TRIED} mistakes of phase {phase}: about a minute", file=sys.stderr)
        subjects = candidates(phase)
        with harness(os.cpu_count() or 1) as workers:
            verdicts = list(workers.examine(subjects, stop_at_first=False, cpu_seconds=CPU_SECONDS))
        bank = bank_of({one.name: verdict for one, verdict in zip(subjects, verdicts, strict=True)})
        FOLDER.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(bank, indent=1, ensure_ascii=False), encoding="utf-8")
    found: dict[str, Recorded] = json.loads(path.read_text(encoding="utf-8"))
    return found


def digest(phase: int) -> str:
    """Return a digest of everything that a phase's bank depends on: mutants, reference and graded tests."""
    files = sorted([*ROOT.glob(f"labs/phase{phase}_*/*.py"), *ROOT.glob("mini_vllm_labs/grading/labtest/**/*.py")])
    texts = [
        reference(phase).text,
        *(one.text for one in candidates(phase)),
        *(repr(path.read_bytes()) for path in sorted(files)),
    ]
    return hashlib.sha256(repr((NUM_TRIED, texts)).encode()).hexdigest()[:12]


def candidates(phase: int) -> list[Subject]:
    """Return the mutants to try: one for each hint, if an excerpt can show it."""
    by_hint = dict[str, Subject]()
    right = reference(phase).text
    for subject in mutants(phase):
        if subject.hint and 0 < len(excerpt(right, subject.text)) <= MOST_LINES:
            by_hint.setdefault(subject.hint, subject)
    found = list(by_hint.values())
    return Random(phase).sample(found, min(NUM_TRIED, len(found)))


def bank_of(verdicts: dict[str, Verdict]) -> dict[str, Recorded]:
    """Return a short run for each mutant that has one; leave out mutants with too few other options."""
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
    """Return the situation and the difference from a graded test's report, without the rule, calls and hint."""
    found = REPORT.match(report)
    body = found[1].partition("\n  your calls, in order:")[0] if found else ""
    lines = [line.replace("    <-- differs", "").rstrip() for line in body.splitlines()]
    return [line for line in lines if not AS_EXPECTED.match(line)]


def is_short(run: list[str]) -> bool:
    return 0 < len(run) <= MOST_LINES and max(map(len, run)) <= MOST_COLUMNS
