"""Graded tests of task 1.1."""

from types import ModuleType

import pytest

from course.labtest.support import compare


@pytest.mark.parametrize(
    ("num_new", "budget", "threshold", "expected"),
    [(8, 10, 0, 8), (8, 5, 0, 5), (100, 50, 16, 16), (100, 10, 16, 10), (16, 50, 16, 16), (8, 0, 0, 0), (8, -3, 4, 0)],
)
def test_clamp_chunks_and_budgets(phase1: ModuleType, num_new: int, budget: int, threshold: int, expected: int) -> None:
    compare(
        "clamp gives what is wanted, cut to the threshold (0: none) and to the budget, never less than 0.",
        before=[f"clamp(num_new={num_new}, budget={budget}, threshold={threshold})"],
        expected={"tokens": expected},
        yours={"tokens": phase1.clamp(num_new, budget, threshold)},
        hint="which of the three caps is the smallest here, and is it in force?",
    )


def test_clamp_is_the_largest_number_that_all_caps_allow(phase1: ModuleType) -> None:
    for num_new in range(-2, 8):
        for budget in range(-2, 8):
            for threshold in range(8):
                allowed = [n for n in range(num_new + 1) if n <= budget and (threshold == 0 or n <= threshold)]
                compare(
                    "clamp returns the largest number that num_new, budget and threshold all allow; 0 if none does.",
                    before=[f"clamp(num_new={num_new}, budget={budget}, threshold={threshold})"],
                    expected={"tokens": max(allowed, default=0)},
                    yours={"tokens": phase1.clamp(num_new, budget, threshold)},
                    hint="a threshold of 0 means no threshold. What does your code do when a cap is 0 or below?",
                )
