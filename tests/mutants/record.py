"""`python -m tests.mutants.record` records the wrong answers that identify each mutant, for the tests' hints.

A mutant may have a hint in its diff. `mini_vllm_labs/grading/hints.py` looks up the hints.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable

from mini_vllm_labs.grading.hints import FOLDER, digest_of_task
from tests.mutants.catalog import PHASES, Subject, mutants
from tests.mutants.harness import harness, phases_and_jobs
from tests.mutants.verdict import Verdict

# for the answers to all of a phase's tests: a slow mistake is recognised by its answers to the other tests
CPU_SECONDS = 20
TASK = re.compile(r"test_task(\d+)_(\d+)_")
Hints = dict[str, dict[str, str]]


def main() -> None:
    """Run every mutant of the phases on all tests; write the hints, and print how many mutants get their hint."""
    options = phases_and_jobs("tests.mutants.record", __doc__).parse_args()
    FOLDER.mkdir(exist_ok=True)
    with harness(options.jobs) as workers:
        for phase in options.phases or PHASES:
            subjects = mutants(phase)
            verdicts = workers.examine(subjects, stop_at_first=False, cpu_seconds=CPU_SECONDS)
            judged = list(zip(subjects, verdicts, strict=True))
            hints = hints_of(judged)
            text = json.dumps(hints, indent=1, sort_keys=True, ensure_ascii=False)
            (FOLDER / f"phase{phase}.json").write_text(text + "\n", encoding="utf-8")
            print(f"phase {phase}: {sum(bool(subject.hint) for subject in subjects)} mutants have a hint")
            for subject, verdict in judged:
                if subject.hint and not shows_hint(subject, verdict, hints):
                    alike = [name for name in alike_in(verdict, judged) if name != subject.name]
                    print(f"  not always shown: {subject.name}; the same answers: {', '.join(alike) or 'none'}")


def hints_of(judged: Iterable[tuple[Subject, Verdict]]) -> Hints:
    """Return the hints, keyed by task and by the wrong answers' digest, without digests that several hints share."""
    found: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for subject, verdict in judged:
        for task, digest in digests_of(verdict).items():
            found[task][digest].add(subject.hint)
    sole = {
        task: {key: hint for key, (hint, *others) in by.items() if hint and not others} for task, by in found.items()
    }
    return {task: by for task, by in sole.items() if by}


def digests_of(verdict: Verdict) -> dict[str, str]:
    """Return the digest of the wrong answers to each task, such as "5.1"; empty unless all tests have ended."""
    by_task: defaultdict[str, dict[str, str]] = defaultdict(dict)
    for test, answer in verdict.answers.items():
        if found := TASK.match(test):
            by_task[f"{found[1]}.{found[2]}"][test] = answer
    return {task: digest_of_task(answers) for task, answers in by_task.items()}


def shows_hint(subject: Subject, verdict: Verdict, hints: Hints) -> bool:
    """Return whether a mutant gets its hint in every task that it fails."""
    return all(hints.get(task, {}).get(digest) == subject.hint for task, digest in digests_of(verdict).items())


def alike_in(verdict: Verdict, judged: Iterable[tuple[Subject, Verdict]]) -> list[str]:
    """Return the mutants that give the same answers in a task."""
    answers = digests_of(verdict).items()
    return [subject.name for subject, other in judged if answers & digests_of(other).items()]


if __name__ == "__main__":
    main()
