"""The exams: each question has one right option, shows no solution, and was recorded from what happens today."""

import os
from collections.abc import Iterator

import pytest

from tests.mutants.catalog import mutants, reference
from tests.mutants.exam.__main__ import answers, sheet
from tests.mutants.exam.bank import LETTERS, NUM_OPTIONS, PHASES, exam, recorded
from tests.mutants.exam.excerpt import excerpt, functions_in
from tests.mutants.exam.record import MOST_LINES, shown
from tests.mutants.harness import Harness, harness
from tests.mutants.record import CPU_SECONDS

SEEDS = range(5)
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the mutants run in forked processes")
each_phase = pytest.mark.parametrize("phase", PHASES)


@pytest.fixture(scope="module")
def workers() -> Iterator[Harness]:
    with harness(1, hash_seed=7) as one_worker:
        yield one_worker


def test_over_a_hundred_questions_are_possible() -> None:
    assert sum(len(recorded(phase)) for phase in PHASES) >= 150


@each_phase
def test_each_question_has_four_options_and_exactly_one_is_right(phase: int) -> None:
    bank, hints = recorded(phase), {one.name: one.hint for one in mutants(phase)}
    assert len({hints[name] for name in bank}) == len(bank)
    for seed in SEEDS:
        questions = exam(phase, seed, len(bank))
        assert {one.options[one.right] for one in questions} == set(bank)
        for one in questions:
            name = one.options[one.right]
            assert len(set(one.options)) == NUM_OPTIONS
            wrong = set(one.options) - {name}
            assert wrong <= set(bank) - set(bank[name]["alike"])
            assert all(name not in bank[other]["alike"] for other in wrong)
            assert one.run == bank[name]["run"]


@needs_fork
@each_phase
def test_a_run_is_that_of_today_and_of_no_other_option(phase: int, workers: Harness) -> None:
    [question] = exam(phase, 1, 1)
    by_name = {one.name: one for one in mutants(phase)}
    verdicts = list(
        workers.examine([by_name[name] for name in question.options], stop_at_first=False, cpu_seconds=CPU_SECONDS)
    )
    right = verdicts.pop(question.right)
    test = recorded(phase)[question.options[question.right]]["test"]
    assert shown(right.reports[test]) == question.run, f"python -m tests.mutants.exam.record --phase {phase}"
    for verdict in verdicts:
        assert verdict.is_caught
        assert not verdict.answers.items() & right.answers.items()


@each_phase
def test_no_question_shows_a_function_of_the_solution_whole(phase: int) -> None:
    right = reference(phase).text
    solutions = [right.splitlines()[first : last + 1] for first, last in functions_in(right)]
    whole = {"\n".join(lines) for lines in solutions}
    for one in exam(phase, 0, len(recorded(phase))):
        assert 0 < len(one.code) <= MOST_LINES
        text = "\n".join(one.code)
        assert not [function for function in whole if function in text]
        assert not set(one.code) >= set(right.splitlines())


def test_the_same_seed_gives_the_same_exam_and_another_one_another() -> None:
    assert exam(3, 7, 10) == exam(3, 7, 10) != exam(3, 8, 10)
    assert len({one.right for seed in SEEDS for one in exam(3, seed, 10)}) == NUM_OPTIONS


@pytest.mark.parametrize("number", [0, 1000])
def test_more_questions_than_there_are_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match=f"--questions {number}: phase 1 has 1 to {len(recorded(1))}"):
        exam(1, 0, number)


def test_the_sheet_keeps_the_answers_to_itself() -> None:
    questions = exam(2, 0, 3)
    paper, key = sheet("Phase 2", questions), answers("Phase 2", questions)
    for number, one in enumerate(questions, start=1):
        assert f"## Question {number}\n" in paper
        assert f"{number}. **{LETTERS[one.right]}**: {one.options[one.right]}." in key
        assert one.hint in key
        assert one.hint not in paper


def test_an_excerpt_is_of_one_function_and_hides_what_is_right() -> None:
    lines = [f"    a = {n}" for n in range(12)]
    right = "\n".join(["def f():", *lines, "def g():", "    return 1"])
    assert excerpt(right, right.replace("a = 6", "b = 6")) == [
        "def f():",
        "    ...",
        *lines[3:6],
        "    b = 6",
        *lines[7:10],
    ]
    assert excerpt(right, f"x = 1\n{right}") == []
    assert excerpt(right, right) == []
