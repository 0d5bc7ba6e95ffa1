"""Graded tests of task 1.1."""

from itertools import product
from types import ModuleType

import pytest

from course.labtest.expect import expect_equal

NUMBERS = (0, 1, 7, 12, 63, 100, 511, 1000, 2048, 4095, 4097, 8192, 10_007, 70_000)


def check_clamp(phase1: ModuleType, num_new: int, budget: int, threshold: int, expected: int) -> None:
    tokens = phase1.clamp(num_new, budget, threshold)
    expect_equal(
        {"tokens": tokens},
        {"tokens": expected},
        rule="clamp returns the largest number that num_new, budget and threshold (0: no limit) all allow, and 0 if "
        "there is none.",
        situation=f"clamp(num_new={num_new}, budget={budget}, threshold={threshold})",
        hint="does every path of your function return a number?"
        if tokens is None
        else "can a request compute fewer than 0 tokens?"
        if tokens < 0
        else "which of the three is the smallest here, is it in force, and do you return that very number?",
    )


@pytest.mark.parametrize(
    ("num_new", "budget", "threshold", "expected"),
    [
        (8, 10, 0, 8),
        (8, 5, 0, 5),
        (100, 50, 16, 16),
        (100, 10, 16, 10),
        (16, 50, 16, 16),
        (8, 0, 0, 0),
        (8, -3, 4, 0),
        (2**60 + 1, 2**61, 0, 2**60 + 1),
    ],
)
def test_clamp_chunks_and_budgets(phase1: ModuleType, num_new: int, budget: int, threshold: int, expected: int) -> None:
    check_clamp(phase1, num_new, budget, threshold, expected)


def test_clamp_is_the_largest_number_that_all_caps_allow(phase1: ModuleType) -> None:
    for num_new in range(-2, 8):
        for budget in range(-2, 8):
            for threshold in range(8):
                allowed = [n for n in range(num_new + 1) if n <= budget and (threshold == 0 or n <= threshold)]
                check_clamp(phase1, num_new, budget, threshold, max(allowed, default=0))


def test_clamp_takes_large_numbers_as_they_are(phase1: ModuleType) -> None:
    for num_new, budget, threshold in product(NUMBERS, repeat=3):
        check_clamp(phase1, num_new, budget, threshold, sorted((num_new, budget, threshold or num_new))[0])
