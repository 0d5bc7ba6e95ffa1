"""Graded tests of task 7.4."""

import random
from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.expect import expect_equal
from mini_vllm_labs.grading.labtest.phase7.rows import check_rows, chunk, last, random_batch
from mini_vllm_labs.grading.labtest.recorded import Answers


def test_a_request_with_drafts_has_a_row_for_each_and_one_more(phase7: ModuleType, answers: Answers) -> None:
    check_rows(phase7, answers, [last("A", 9, 1, [5, 6, 7])])
    check_rows(phase7, answers, [last("A", 9, 1, (5,))])
    check_rows(phase7, answers, [last("A", 9, 1, [0, 0])])


def test_without_drafts_the_rows_are_those_of_phase_6(phase7: ModuleType, answers: Answers) -> None:
    check_rows(phase7, answers, [last("A", 9, 1)])
    check_rows(phase7, answers, [last("A", 9, 9), last("B", 4, 1), last("C", 7, 3)])
    check_rows(phase7, answers, [chunk("A", 0, 8), chunk("B", 4, 5)])


def test_chunks_decodes_and_drafts_in_one_step(phase7: ModuleType, answers: Answers) -> None:
    check_rows(
        phase7,
        answers,
        [
            last("A", 9, 1, [5, 6]),  # rows 0 to 2
            chunk("B", 4, 7),  # rows 3 to 9
            last("C", 6, 1),  # row 10
            last("D", 12, 5),  # rows 11 to 15: the end of a prompt
            last("E", 8, 1, [0, 4, 4]),  # rows 16 to 19
        ],
    )
    check_rows(phase7, answers, [chunk("A", 0, 3), last("B", 5, 1, [9]), chunk("C", 3, 4), last("D", 5, 1, [])])


def test_drafts_behind_several_known_tokens(phase7: ModuleType, answers: Answers) -> None:
    check_rows(phase7, answers, [last("A", 9, 4, [5, 6])])
    check_rows(phase7, answers, [last("A", 9, 3, [5, 6]), last("B", 9, 2, [7])])


def test_the_rows_are_a_list_of_their_own(phase7: ModuleType, answers: Answers) -> None:
    check_rows(phase7, answers, [last("A", 9, 1, [5, 6])])
    check_rows(phase7, answers, [last("B", 4, 1)])
    first = phase7.select_logits_rows([last("A", 9, 1, [5, 6])])
    first.append(99)
    second = phase7.select_logits_rows([last("B", 4, 1)])
    expect_equal(
        {"first": list(first), "second": list(second)},
        {"first": [0, 1, 2, 99], "second": [0]},
        rule="Each call returns a new list: the runner may change it.",
        situation="a batch with one known token and two drafts; the list that your call returned got a 99; then a "
        "batch with one token; compared: both lists afterwards",
        hint="where is the list made that you return?",
    )


@pytest.mark.parametrize("seed", range(5))
def test_random_batches_against_rows_counted_one_by_one(phase7: ModuleType, answers: Answers, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(100):
        check_rows(phase7, answers, random_batch(rng))
