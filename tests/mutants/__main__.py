"""`python -m tests.mutants` checks that the graded tests catch every mutant and pass every fair alternative."""

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence

from tests.mutants.catalog import PHASES, Subject, alternatives, mutants, reference
from tests.mutants.harness import Harness, harness, phases_and_jobs
from tests.mutants.verdict import Verdict

NAME_WIDTH = 72
LINES_APART = 50


def main() -> int:
    """Print the tables; return 0 if all is well, 1 if a mutant survives or an alternative fails."""
    options = _options()
    if not hasattr(os, "fork"):
        sys.exit("this command needs os.fork, which this system does not have (Linux and macOS do)")
    with harness(options.jobs) as workers:
        num_tests = _num_tests_that_pass(workers, options.phases)
        is_well = num_tests is not None and _try_catalog(workers, options, num_tests)
    return 0 if is_well else 1


def _num_tests_that_pass(workers: Harness, phases: Sequence[int]) -> dict[int, int] | None:
    """Run each phase's reference; return how many tests it passes, or None if it fails any."""
    num_tests: dict[int, int] = {}
    references = [reference(phase) for phase in phases]
    for subject, verdict in zip(references, workers.examine(references, stop_at_first=False), strict=True):
        print(f"phase {subject.phase}: on the reference {verdict.describe()}", flush=True)
        if verdict.outcome != "passed" or not verdict.num_passed:
            print(verdict.detail)
            return None
        num_tests[subject.phase] = verdict.num_passed
    return num_tests


def _try_catalog(workers: Harness, options: argparse.Namespace, num_tests: dict[int, int]) -> bool:
    start = time.monotonic()
    subjects = [
        subject
        for phase in options.phases
        for subject in mutants(phase) + alternatives(phase)
        if options.only in subject.name
    ]
    verdicts = workers.examine(subjects, stop_at_first=not options.count)
    bad: list[tuple[Subject, Verdict]] = []
    heading = ""
    for number, (subject, verdict) in enumerate(zip(subjects, verdicts, strict=True), start=1):
        if heading != (heading := f"\nPhase {subject.phase}, {subject.kind}s"):
            print(heading, flush=True)
        well = is_well(subject, verdict, num_tests[subject.phase])
        if not well:
            bad.append((subject, verdict))
        if not (options.quiet and well and number % LINES_APART):
            line = f"{number:4}/{len(subjects)}  {subject.name:{NAME_WIDTH}}  {row(subject, verdict, well)}"
            print(line, flush=True)
    _summarize(options.phases, subjects, bad, time.monotonic() - start)
    return not bad


def is_well(subject: Subject, verdict: Verdict, num_tests: int) -> bool:
    """Return whether a mutant was caught, or an alternative passed every test that the reference passes."""
    if subject.kind == "mutant":
        return verdict.is_caught
    return verdict.outcome == "passed" and verdict.num_passed == num_tests


def row(subject: Subject, verdict: Verdict, well: bool) -> str:
    """Return the table row for one implementation."""
    if subject.kind == "mutant":
        return verdict.describe() if well else "SURVIVED" if verdict.outcome == "passed" else verdict.describe()
    return "passed" if well else f"FAILED: {verdict.describe()}"


def _options() -> argparse.Namespace:
    parser = phases_and_jobs("tests.mutants", __doc__)
    parser.add_argument("--only", default="", metavar="WORDS", help="only names that contain this")
    parser.add_argument("--count", action="store_true", help="count all tests that catch a mutant, not just the first")
    parser.add_argument("--quiet", action="store_true", help=f"print failures, and every {LINES_APART}th line")
    options = parser.parse_args()
    options.phases = options.phases or list(PHASES)
    return options


def _summarize(
    phases: Sequence[int], subjects: Sequence[Subject], bad: Sequence[tuple[Subject, Verdict]], seconds: float
) -> None:
    total = Counter[tuple[int, str]]((subject.phase, subject.kind) for subject in subjects)
    good = total - Counter[tuple[int, str]]((subject.phase, subject.kind) for subject, _ in bad)
    print("\nphase   mutants caught   alternatives passed")
    for phase in phases:
        mutant, alternative = (phase, "mutant"), (phase, "alternative")
        caught = f"{good[mutant]:6} of {total[mutant]:<5}"
        print(f"{phase:5}   {caught}   {good[alternative]:8} of {total[alternative]}")
    print(f"{len(subjects)} implementations in {seconds:.0f} s")
    for subject, verdict in bad:
        print(f"\nphase {subject.phase}, {subject.kind} {subject.name!r}: {verdict.describe()}\n{verdict.detail}")


if __name__ == "__main__":
    sys.exit(main())
