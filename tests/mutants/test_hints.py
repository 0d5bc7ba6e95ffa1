"""The hints of known mistakes: the recorded hints match today's mutants and are shown to learners."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mini_vllm_labs.grading.grader import hinted
from mini_vllm_labs.grading.hints import answer_of, hint_for, recorded
from mini_vllm_labs.grading.labtest.failure import Failed, Failure
from mini_vllm_labs.grading.results import TestResult
from tests.grading.checkout import Checkout
from tests.grading.forked import forked
from tests.mutants.catalog import PHASES, mutants, reference
from tests.mutants.harness import Harness, harness
from tests.mutants.record import CPU_SECONDS, digests_of, hints_of
from tests.mutants.verdict import Verdict

QUESTIONS = (
    "which number differs in your code, the needed or the promised blocks, and how do you compare their sum with the "
    "number of free blocks?",
    "no other request is running here. How many blocks do all its tokens need, which hit blocks leave the free queue, "
    "and may the sum equal the number of free blocks?",
)
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the mutants run in forked processes")
with_hints = pytest.mark.parametrize("phase", [phase for phase in PHASES if recorded(phase)])


@with_hints
def test_every_hint_is_recorded_and_every_recorded_hint_is_in_a_diff(phase: int) -> None:
    hints = {subject.hint for subject in mutants(phase)} - {""}
    assert {hint for by_digest in recorded(phase).values() for hint in by_digest.values()} == hints


@pytest.fixture(scope="module")
def workers() -> Iterator[Harness]:
    with harness(1, hash_seed=7) as one_worker:
        yield one_worker


@needs_fork
@with_hints
def test_the_recorded_hints_are_those_of_today(phase: int, workers: Harness) -> None:
    subjects = [subject for subject in mutants(phase) if subject.hint][:2]
    found = []
    for subject, verdict in zip(
        subjects, workers.examine(subjects, stop_at_first=False, cpu_seconds=CPU_SECONDS), strict=True
    ):
        by_task = digests_of(verdict)
        found += [recorded(phase).get(task, {}).get(digest) for task, digest in by_task.items()]
        assert set(found[-len(by_task) :]) <= {subject.hint, None}, subject.name
    assert any(found), "python -m tests.mutants.record makes the hints anew"


@needs_fork
def test_a_learner_reads_the_hint_of_a_known_mistake_else_the_question_of_the_test(tmp_path: Path) -> None:
    by_name = {subject.name: subject for subject in mutants(5)}
    known = by_name["the guard takes free hit blocks for free memory"]
    shared = by_name["admits: compared with all the usable blocks"]
    unknown = reference(5).text.replace("+ len(idle_hits)", "+ 3 * len(idle_hits)")
    jobs = [(5, known.text), (5, shared.text), (5, unknown)]
    outputs = list(forked(Checkout(tmp_path), jobs))
    assert f"Hint: {known.hint}\n" in outputs[0]
    assert not any(question in outputs[0] for question in QUESTIONS)
    for question, output in zip(QUESTIONS, outputs[1:], strict=True):
        assert f"Hint: {question}\n" in output
        assert not any(subject.hint and subject.hint in output for subject in by_name.values())


def test_a_digest_that_two_mistakes_share_has_no_hint() -> None:
    first, second, third = [subject for subject in mutants(5) if subject.hint][:3]
    tests = ["test_task5_1_a.py::test_a", "test_task5_4_b.py::test_b"]
    alone, shared = Verdict("failed", answers={tests[0]: "1"}), Verdict("failed", answers={tests[1]: "2"})
    hints = hints_of([(first, alone), (second, shared), (third, shared)])
    assert hints == {"5.1": {digests_of(alone)["5.1"]: first.hint}}


def failure(rule: str = "a rule", yours: str = "4", hint: str = "a question?") -> Failed:
    return Failed(f"{rule} {yours}\nHint: {hint}", Failure(rule, ["2 blocks"], [("", "3", yours)], [], hint))


def test_an_answer_is_known_by_what_was_compared_and_not_by_the_words_around_it() -> None:
    assert answer_of(failure()) == answer_of(failure(rule="another rule", hint="another question?"))
    assert answer_of(failure()) != answer_of(failure(yours="5"))
    assert answer_of(ValueError("at 0x7f00")) == answer_of(ValueError("at 0x7f01"))
    assert answer_of(ValueError("a")) != answer_of(TypeError("a"))


def test_a_grade_has_the_hint_in_all_failures_of_the_task_if_all_its_tests_answer_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verdict = Verdict("failed", answers={"test_task5_1_a.py::test_a": "1", "test_task5_1_a.py::test_b": "2"})
    (task, digest), *_ = digests_of(verdict).items()
    monkeypatch.setattr("mini_vllm_labs.grading.hints.recorded", lambda phase: {task: {digest: "the hint"}})
    results = [TestResult(test, "failed", "no\nHint: ?", answer=answer) for test, answer in verdict.answers.items()]
    passed = TestResult("test_task5_1_a.py::test_c", "passed")
    assert [result.message for result in hinted(task, [*results, passed])] == ["no\nHint: the hint"] * 2 + [""]
    assert hinted(task, results[:1]) == results[:1]
    assert hint_for(task, {}) == ""
