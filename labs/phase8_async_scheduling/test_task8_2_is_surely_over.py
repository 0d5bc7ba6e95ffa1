"""Graded tests of task 8.2: whether the step in flight is the last one of a request."""

from types import ModuleType

import pytest

from course.labtest.phase8.cases import request_with, scheduling_of
from course.labtest.phase8.last_steps import check_row, in_flight
from course.views.text import counted


@pytest.mark.parametrize("max_tokens", [7, 3, 2, 1])
@pytest.mark.parametrize("num_prompt", [3, 1, 40])
def test_without_drafts_the_step_that_brings_the_last_token_is_the_last_one(
    phase8: ModuleType, num_prompt: int, max_tokens: int
) -> None:
    check_row(
        scheduling_of(phase8, 0),
        [in_flight(num_prompt, known, max_tokens, 0, 0) for known in range(max_tokens)],
        [known == max_tokens - 1 for known in range(max_tokens)],
        f"max_tokens={max_tokens}; one step is in flight, which samples one token",
    )


@pytest.mark.parametrize("max_tokens", [8, 3, 2, 1])
@pytest.mark.parametrize(("num_drafts", "most"), [(2, 2), (1, 1), (1, 4), (4, 4), (0, 3)])
def test_with_drafts_only_one_token_is_certain(phase8: ModuleType, max_tokens: int, num_drafts: int, most: int) -> None:
    check_row(
        scheduling_of(phase8, most),
        [in_flight(3, known, max_tokens, num_drafts, most) for known in range(max_tokens)],
        [known == max_tokens - 1 for known in range(max_tokens)],
        f"max_tokens={max_tokens}; one step is in flight, which verifies {counted(num_drafts, 'draft')} and samples",
    )


@pytest.mark.parametrize("max_tokens", [1, 2])
def test_a_prompt_of_which_a_part_is_computed_is_not_over(phase8: ModuleType, max_tokens: int) -> None:
    check_row(
        scheduling_of(phase8, 0),
        [request_with(8, computed=computed, max_tokens=max_tokens) for computed in range(8)],
        [False] * 8,
        f"max_tokens={max_tokens}; a prompt is computed in chunks, none of which samples yet",
    )


@pytest.mark.parametrize("most", [0, 2])
def test_a_request_that_the_last_step_left_out_is_not_over(phase8: ModuleType, most: int) -> None:
    check_row(
        scheduling_of(phase8, most),
        [request_with(3, known, computed=2 + known, max_tokens=5, drafts=[-1] * most) for known in range(1, 5)],
        [False] * 4,
        "max_tokens=5; the budget of the step in flight was used up by other requests",
    )


def test_a_resumed_request_is_not_over_before_it_samples(phase8: ModuleType) -> None:
    check_row(
        scheduling_of(phase8, 0),
        [*(request_with(3, 4, computed=computed, max_tokens=5) for computed in range(7)), in_flight(3, 4, 5, 0, 0)],
        [*[False] * 7, True],
        "max_tokens=5; a preempted request is computed again in chunks, and samples with the last one",
    )
