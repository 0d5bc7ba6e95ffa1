"""The catalog is in order: every diff applies, every implementation compiles, and there are enough of them.

`python -m tests.mutants` runs the catalog.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mutants.catalog import PHASES, Subject, alternatives, mutants, reference
from tests.mutants.diffs import DiffError, read_diffs
from tests.mutants.harness import Harness, harness

per_phase = pytest.mark.parametrize("phase", PHASES)


@per_phase
def test_every_diff_fits_the_reference_and_there_are_twenty_different_mistakes(phase: int) -> None:
    subjects = mutants(phase)
    assert len(subjects) >= 20
    check_all_different(subjects)


@per_phase
def test_there_are_five_different_alternatives(phase: int) -> None:
    subjects = alternatives(phase)
    assert len(subjects) >= 5
    check_all_different(subjects)


@per_phase
def test_no_mutant_fails_for_a_name_that_is_not_there(phase: int, tmp_path: Path) -> None:
    # The mutant's hint would describe a mistake that the learner did not make.
    for number, subject in enumerate(mutants(phase)):
        (tmp_path / f"{number}.py").write_text(subject.text, encoding="utf-8")
    check = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", "--output-format", "concise"]
    done = subprocess.run([*check, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def check_all_different(subjects: list[Subject]) -> None:
    assert len({subject.name for subject in subjects}) == len(subjects)
    assert len({subject.text for subject in subjects} - {reference(subjects[0].phase).text}) == len(subjects)
    for subject in subjects:
        compile(subject.text, subject.name, "exec")


@pytest.mark.parametrize(
    ("diff", "complaint"),
    [
        ("# twice\n-a\n+c\n", "2 times"),
        ("# nowhere\n-x\n+c\n", "0 times"),
        ("# half a line\n-b\n+c\n", "0 times"),
        ("# overlapping\n-a\n-b1\n+c\n@@\n b1\n+d\n", "overlap"),
        ("# nothing\n", "changes nothing"),
        ("# the same\n a\n b1\n", "must alter something"),
        ("# no place\n+c\n", "must include the lines"),
        ("# odd\n*c\n", "line 2"),
    ],
)
def test_a_diff_that_does_not_fit_is_an_error(diff: str, complaint: str) -> None:
    with pytest.raises(DiffError, match=complaint):
        [one.apply("a\nb1\na\n") for one in read_diffs(diff)]


def test_a_diff_changes_just_its_lines() -> None:
    (diff,) = read_diffs("# two places\n a\n-b\n+B\n@@\n-d\n+D\n+E\n")
    assert diff.apply("a\nb\nc\nd\n") == "a\nB\nc\nD\nE\n"


@pytest.fixture(scope="module")
def worker() -> Iterator[Harness]:
    if not hasattr(os, "fork"):
        pytest.skip("the command needs os.fork")
    with harness(1) as one_worker:
        yield one_worker


def test_a_mutant_is_caught_and_an_alternative_and_the_reference_pass(worker: Harness) -> None:
    subjects = [mutants(1)[0], alternatives(1)[0], reference(1)]
    mutant, alternative, control = worker.examine(subjects, stop_at_first=True)
    assert mutant.outcome == "failed", mutant.describe()
    assert mutant.failed
    assert control.outcome == "passed", control.describe()
    assert control.num_passed > 20
    assert (alternative.outcome, alternative.num_passed) == ("passed", control.num_passed), alternative.describe()


def test_an_endless_loop_is_caught_and_named(worker: Harness) -> None:
    text = f"{reference(1).text}\ndef clamp(num_new, budget, threshold):\n    while True:\n        pass\n"
    (verdict,) = worker.examine([Subject(1, "mutant", "loops", text)], stop_at_first=True, cpu_seconds=2)
    assert verdict.outcome == "endless", verdict.describe()
    assert "clamp" in verdict.describe()


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("import os; os._exit(0)", "not run"),
        ("def clamp(num_new, budget, threshold): import os; os._exit(0)", "died"),
        ("def clamp(num_new, budget, threshold): import os; os.kill(os.getpid(), 11)", "died"),
        ("import sys; sys.modules[__name__] = __import__('labs.phase1_scheduler_step.starter')", "not run"),
        ("class(", "not run"),
    ],
)
def test_code_that_the_tests_never_ran_or_did_not_finish_has_not_passed(
    worker: Harness, line: str, outcome: str
) -> None:
    subject = Subject(1, "mutant", line, f"{reference(1).text}\n{line}\n")
    (verdict,) = worker.examine([subject], stop_at_first=True)
    assert verdict.outcome == outcome, verdict.describe()
