"""The exams: each question has one correct option, and shows no solution."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mutants.catalog import mutants, reference
from tests.mutants.exam import record
from tests.mutants.exam.__main__ import answers, main, sheet
from tests.mutants.exam.bank import LETTERS, exam
from tests.mutants.exam.excerpt import excerpt, functions_in
from tests.mutants.exam.record import MOST_LINES, NUM_OPTIONS

SEEDS = range(5)
PHASE = 3
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the mutants run in forked processes")


@pytest.fixture(scope="module", autouse=True)
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, record.Recorded]]:
    """The questions for one phase, generated during the test from some of its mistakes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record, "NUM_TRIED", 14)
        patch.setattr(record, "FOLDER", tmp_path_factory.mktemp("banks"))
        yield record.recorded(PHASE)


def test_a_bank_is_made_once(bank: dict[str, record.Recorded], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "harness", lambda _: pytest.fail("made again"))
    assert record.recorded(PHASE) == bank
    assert len(bank) >= 2 * NUM_OPTIONS
    right, wrong = record.digest(PHASE), {one.name: one.text for one in mutants(PHASE)}
    monkeypatch.setattr(record, "candidates", lambda _: [])
    assert record.digest(PHASE) != right, f"{len(wrong)} mutants count"


def test_each_question_has_four_options_and_exactly_one_is_right(bank: dict[str, record.Recorded]) -> None:
    hints = {one.name: one.hint for one in mutants(PHASE)}
    assert len({hints[name] for name in bank}) == len(bank)
    for seed in SEEDS:
        questions = exam(PHASE, seed, len(bank))
        assert {one.options[one.right] for one in questions} == set(bank)
        for one in questions:
            name = one.options[one.right]
            assert len(set(one.options)) == NUM_OPTIONS
            wrong = set(one.options) - {name}
            assert wrong <= set(bank) - set(bank[name]["alike"])
            assert all(name not in bank[other]["alike"] for other in wrong)
            assert one.run == bank[name]["run"]


def test_no_question_shows_a_function_of_the_solution_whole(bank: dict[str, record.Recorded]) -> None:
    right = reference(PHASE).text
    solutions = [right.splitlines()[first : last + 1] for first, last in functions_in(right)]
    whole = {"\n".join(lines) for lines in solutions}
    for one in exam(PHASE, 0, len(bank)):
        assert 0 < len(one.code) <= MOST_LINES
        text = "\n".join(one.code)
        assert not [function for function in whole if function in text]
        assert not set(one.code) >= set(right.splitlines())


def test_the_same_seed_gives_the_same_exam_and_another_one_another() -> None:
    assert exam(PHASE, 7, 5) == exam(PHASE, 7, 5) != exam(PHASE, 8, 5)
    assert len({one.right for seed in SEEDS for one in exam(PHASE, seed, 5)}) == NUM_OPTIONS


@pytest.mark.parametrize("number", [0, 1000])
def test_more_questions_than_there_are_is_refused(bank: dict[str, record.Recorded], number: int) -> None:
    with pytest.raises(ValueError, match=f"--questions {number}: choose 1 to {len(bank)} for phase {PHASE}"):
        exam(PHASE, 0, number)


def test_the_sheet_keeps_the_answers_to_itself() -> None:
    questions = exam(PHASE, 0, 3)
    paper, key = sheet("Phase 3", questions), answers("Phase 3", questions)
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


@pytest.mark.parametrize("folder", ["notes", "notes/below"])
def test_a_file_in_place_of_the_folder_is_refused_in_one_line(folder: str, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "notes").write_text("mine", encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["exam", "--phase", str(PHASE), "--folder", str(tmp_path / folder)])
    with pytest.raises(SystemExit, match=r"^error: .*notes"):
        main()
