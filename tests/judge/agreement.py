"""`python -m tests.judge.agreement [EVERY] [OFFSET] [--phase N]` compares `grade` and the judge on catalogued files.

Prints a line per mistake and fair alternative, and exits with 1 if any of them fails under only one of the two. By
default, both stop at the first failure; all phases then take an hour of CPU time. `--points` runs all situations and
prints the points.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence

from mini_vllm_labs.classroom.judge.jail import Jail
from mini_vllm_labs.classroom.judge.judge import Judge
from mini_vllm_labs.classroom.judge.settings import JudgeSettings
from mini_vllm_labs.grading.plan import load_whole_plan
from tests.judge.__main__ import SECONDS, SITUATIONS, Key, loses
from tests.judge.files import fair_texts
from tests.judge.forked import first_wrong
from tests.mutants.catalog import PHASES, Subject, alternatives, mutants
from tests.mutants.harness import Harness, harness
from tests.mutants.verdict import Verdict

NAME_WIDTH = 72


def main() -> int:
    """Run `grade` and the judge on the catalogue; return 1 if they disagree about a file."""
    options = _options()
    os.environ["OMP_NUM_THREADS"] = "1"  # torch's threads do not survive a fork
    apart = list[str]()
    with harness(1) as workers:
        for phase in options.phases or PHASES:
            subjects = [one for one in [*mutants(phase), *alternatives(phase)] if options.only in one.name]
            print(f"\nphase {phase}{'':{NAME_WIDTH}}  grade   judge", flush=True)
            for subject, *found in rows(
                workers, phase, subjects[options.offset :: options.every], points=options.points
            ):
                agree = (found[0] == "all") == (found[1] == "all")
                apart += [] if agree else [f"phase {phase}: {subject.name}"]
                mark = "" if agree else "  <-- differs"
                print(f"{subject.kind:11}  {subject.name:{NAME_WIDTH}}  {found[0]:>6}  {found[1]:>6}{mark}", flush=True)
    print(f"\n{len(apart)} files fail in one of the two alone", *apart, sep="\n    ")
    return 1 if apart else 0


def rows(
    workers: Harness, phase: int, subjects: Sequence[Subject], *, points: bool
) -> Iterator[tuple[Subject, str, str]]:
    """Yield each file with its result from `grade` and from the judge: "all", "less", or its points."""
    judge = Judge(JudgeSettings("catalogue", SITUATIONS, SECONDS, phases=(phase,)), Jail())
    judge.draw((phase,))
    lately, fair = list[Key](), fair_texts(phase)
    for subject, verdict in zip(subjects, workers.examine(subjects, stop_at_first=not points), strict=True):
        text = fair.get(subject.name, subject.text) if subject.kind == "alternative" else subject.text
        is_short = loses(judge, phase, text, lately)
        graded = "all" if verdict.outcome == "passed" else points_in_grade(phase, verdict) if points else "less"
        judged = "all" if not is_short else points_in_judge(judge, phase, text) if points else "less"
        yield subject, graded, judged


def points_in_grade(phase: int, verdict: Verdict) -> str:
    if verdict.outcome != "failed":
        return verdict.outcome
    tasks = next(one.tasks for one in load_whole_plan() if one.number == phase)
    shares = (task.points * sum(test not in verdict.answers for test in task.tests) / len(task.tests) for task in tasks)
    return f"{sum(shares):.1f}"


def points_in_judge(judge: Judge, phase: int, text: str) -> str:
    points = 0.0
    for group in judge.groups:
        named = judge.named_cases(group)
        if named is None or first_wrong(phase, text, [named]) is None:
            situations = [[judge.situation(group, number)] for number in range(SITUATIONS)]
            num_right = sum(first_wrong(phase, text, asked) is None for asked in situations)
            points += group.points * num_right / SITUATIONS
    return f"{points:.1f}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.judge.agreement", description=__doc__)
    parser.add_argument("every", type=int, nargs="?", default=1, help="take every so many-th (default: all)")
    parser.add_argument("offset", type=int, nargs="?", default=0, help="start with this one")
    parser.add_argument("--phase", type=int, action="append", choices=PHASES, dest="phases", help="only this phase")
    parser.add_argument("--only", default="", metavar="WORDS", help="only names that contain this")
    parser.add_argument("--points", action="store_true", help="print points, not just whether all are there")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
