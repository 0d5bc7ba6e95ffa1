"""Graded tests of task 5.2."""

from types import ModuleType

import pytest

from course.labtest.phase5.cases import PREEMPTED, RUNNING, WAITING, check_caps, compare_random_caps
from course.labtest.phase5.memories import request_in
from course.labtest.recorded import Answers
from mini_vllm.core.request import RequestStatus


@pytest.mark.parametrize("status", [WAITING, PREEMPTED], ids=lambda status: status.name.lower())
@pytest.mark.parametrize(
    ("num_computed", "threshold", "budget", "expected"),
    [
        (0, 0, 29, 0),  # 30 tokens do not fit into 29
        (0, 0, 30, 30),
        (16, 0, 13, 0),  # after a hit of 16 it needs 14
        (16, 0, 14, 14),
        (0, 16, 20, 16),  # the threshold still cuts, and what it leaves fits
        (0, 16, 16, 16),
        (0, 16, 15, 0),  # what it leaves does not fit
        (0, 40, 29, 0),  # the threshold is larger than the request
        (16, 16, 14, 14),
    ],
)
def test_without_chunking_a_waiting_request_is_all_or_nothing(
    phase5: ModuleType, status: RequestStatus, num_computed: int, threshold: int, budget: int, expected: int
) -> None:
    check_caps(
        phase5,
        request_in(status, "A", 30),
        num_computed,
        budget=budget,
        expected=expected,
        threshold=threshold,
        chunking=False,
        rule="Chunking disabled: a request that is not RUNNING gets all that the threshold leaves, or 0.",
        hint=f"it is not RUNNING, and {30 - num_computed} tokens are left: how many of them does the threshold leave, "
        "and do all of these fit into the budget?",
    )


@pytest.mark.parametrize(
    ("num_computed", "threshold", "budget", "expected"), [(16, 16, 9, 9), (16, 0, 9, 9), (0, 16, 9, 9), (29, 0, 1, 1)]
)
def test_without_chunking_a_running_request_still_gets_a_part(
    phase5: ModuleType, num_computed: int, threshold: int, budget: int, expected: int
) -> None:
    check_caps(
        phase5,
        request_in(RUNNING, "A", 30, computed=num_computed),
        num_computed,
        budget=budget,
        expected=expected,
        threshold=threshold,
        chunking=False,
        rule="Chunking disabled: all or nothing holds for requests that are not RUNNING; a RUNNING one gets a part.",
        hint=f"this request is RUNNING, and {num_computed} of its 30 tokens are computed: which caps hold for it?",
    )


@pytest.mark.parametrize("seed", range(5))
def test_random_caps_without_chunking(phase5: ModuleType, answers: Answers, seed: int) -> None:
    compare_random_caps(phase5, answers, seed, chunking=False)
