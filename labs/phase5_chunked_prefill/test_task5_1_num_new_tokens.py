"""Graded tests of task 5.1."""

from types import ModuleType

import pytest

from course.labtest.phase5.cases import PREEMPTED, RUNNING, WAITING, check_caps, compare_random_caps
from course.labtest.phase5.reference_policy import (
    request_in,
)
from mini_vllm.core.request import RequestStatus


@pytest.mark.parametrize(
    ("num_tokens", "num_computed", "threshold", "budget", "expected"),
    [
        (30, 0, 0, 100, 30),  # all it wants
        (30, 0, 0, 12, 12),  # the budget
        (30, 0, 16, 100, 16),  # the threshold
        (30, 0, 16, 12, 12),  # both: the smaller one
        (30, 0, 12, 16, 12),
        (30, 16, 16, 100, 14),  # the rest is under the threshold
        (30, 20, 0, 8, 8),
        (30, 14, 16, 100, 16),  # the rest is exactly the threshold
        (30, 29, 16, 100, 1),  # one token behind: a decode
        (30, 0, 1, 100, 1),
        (30, 0, 0, 0, 0),
    ],
)
@pytest.mark.parametrize("status", [WAITING, RUNNING, PREEMPTED], ids=lambda status: status.name.lower())
def test_threshold_and_budget(
    phase5: ModuleType,
    status: RequestStatus,
    num_tokens: int,
    num_computed: int,
    threshold: int,
    budget: int,
    expected: int,
) -> None:
    request = request_in(status, "A", num_tokens, computed=num_computed)
    check_caps(phase5, request, num_computed, budget=budget, expected=expected, threshold=threshold)


def test_a_resumed_request_wants_its_outputs_too(phase5: ModuleType) -> None:
    check_caps(phase5, request_in(PREEMPTED, "victim", 10, num_outputs=7), 0, budget=100, expected=17)
    check_caps(phase5, request_in(PREEMPTED, "victim", 10, num_outputs=7), 12, budget=100, expected=5)
    check_caps(phase5, request_in(RUNNING, "runner", 10, num_outputs=7, computed=8), 8, budget=100, expected=9)


@pytest.mark.parametrize(
    ("status", "num_tokens", "num_computed", "expected"),
    [
        (RUNNING, 32, 0, 31),
        (RUNNING, 32, 30, 1),
        (RUNNING, 32, 31, 0),
        (RUNNING, 31, 20, 11),
        (RUNNING, 30, 20, 10),
        (RUNNING, 34, 24, 7),
        (WAITING, 32, 0, 32),
        (WAITING, 32, 16, 16),
        (PREEMPTED, 32, 0, 32),
    ],
)
def test_last_position_of_the_model_caps_who_runs(
    phase5: ModuleType, status: RequestStatus, num_tokens: int, num_computed: int, expected: int
) -> None:
    request = request_in(status, "A", num_tokens, computed=num_computed)
    check_caps(phase5, request, num_computed, budget=100, expected=expected, max_model_len=32)


@pytest.mark.parametrize("seed", range(5))
def test_random_caps_against_the_naive_count(phase5: ModuleType, seed: int) -> None:
    compare_random_caps(phase5, seed, chunking=True)
