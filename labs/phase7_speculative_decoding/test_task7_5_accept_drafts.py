"""Graded tests of task 7.5."""

import random
from types import ModuleType

import pytest

from course.labtest.phase7.accepted import check_accepted, random_pair
from course.labtest.recorded import Answers


@pytest.mark.parametrize(
    ("drafts", "sampled"),
    [
        ([8, 9, 4], [8, 9, 4, 1]),  # all right: three drafts and a token more
        ([8, 9, 4], [8, 9, 5, 1]),
        ([8, 9, 4], [8, 7, 4, 1]),
        ([8, 9, 4], [7, 9, 4, 1]),  # the first is wrong: as in a plain step
        ([8], [8, 1]),
        ([8], [7, 1]),
        ([], [7]),
    ],
)
def test_the_tokens_up_to_the_first_wrong_draft_are_kept(
    phase7: ModuleType, answers: Answers, drafts: list[int], sampled: list[int]
) -> None:
    check_accepted(phase7, answers, drafts, sampled)


def test_a_right_draft_behind_a_wrong_one_does_not_count(phase7: ModuleType, answers: Answers) -> None:
    check_accepted(phase7, answers, [1, 2, 3, 4], [9, 2, 3, 4, 5])
    check_accepted(phase7, answers, [1, 2, 3, 4], [1, 9, 3, 4, 5])
    check_accepted(phase7, answers, [6, 6, 6], [6, 7, 6, 6])


def test_token_0_can_be_right_and_wrong(phase7: ModuleType, answers: Answers) -> None:
    check_accepted(phase7, answers, [0, 5], [0, 5, 2])
    check_accepted(phase7, answers, [0, 0], [0, 0, 0])
    check_accepted(phase7, answers, [5, 0], [5, 2, 0])
    check_accepted(phase7, answers, [5, 3], [5, 0, 1])
    check_accepted(phase7, answers, [0], [4, 0])


@pytest.mark.parametrize("seed", range(3))
def test_random_drafts_against_a_count_from_the_front(phase7: ModuleType, answers: Answers, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(200):
        check_accepted(phase7, answers, *random_pair(rng))
