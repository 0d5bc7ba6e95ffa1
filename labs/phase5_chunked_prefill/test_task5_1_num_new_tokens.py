"""Graded tests of task 5.1."""

from types import ModuleType

import pytest

from course.labtest.phase5.cases import PREEMPTED, RUNNING, WAITING, check_caps, compare_random_caps
from course.labtest.phase5.memories import request_in
from course.labtest.recorded import Answers
from mini_vllm.core.request import RequestStatus

each_status = pytest.mark.parametrize("status", [WAITING, RUNNING, PREEMPTED], ids=lambda status: status.name.lower())


@each_status
@pytest.mark.parametrize(
    ("num_tokens", "num_computed", "threshold", "budget", "expected"),
    [
        (30, 0, 0, 100, 30),  # no cap binds
        (30, 0, 0, 12, 12),  # the budget
        (30, 0, 16, 100, 16),  # the threshold
        (30, 0, 16, 12, 12),  # both: the smaller one
        (30, 0, 12, 16, 12),
        (30, 16, 16, 100, 14),  # the rest is below the threshold
        (30, 20, 0, 8, 8),
        (30, 14, 16, 100, 16),  # the rest is exactly the threshold
        (30, 29, 16, 100, 1),  # one token left: a decode
        (30, 0, 1, 100, 1),
        (30, 0, 0, 0, 0),
    ],
)
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


@each_status
@pytest.mark.parametrize(
    ("num_computed", "threshold", "budget", "expected"),
    [
        (0, 0, 16_384, 10_000),
        (0, 8192, 2048, 2048),
        (6144, 2048, 16_384, 2048),
        (9000, 2048, 16_384, 1000),
        (512, 9000, 16_384, 9000),
    ],
)
def test_long_prompts_follow_the_same_rule(
    phase5: ModuleType, status: RequestStatus, num_computed: int, threshold: int, budget: int, expected: int
) -> None:
    request = request_in(status, "A", 10_000, computed=num_computed)
    check_caps(
        phase5, request, num_computed, budget=budget, expected=expected, threshold=threshold, max_model_len=16_384
    )


def test_a_resumed_request_recomputes_its_outputs_too(phase5: ModuleType) -> None:
    for request, num_computed, expected in (
        (request_in(PREEMPTED, "victim", 10, num_outputs=7), 0, 17),
        (request_in(PREEMPTED, "victim", 10, num_outputs=7), 12, 5),
        (request_in(RUNNING, "runner", 10, num_outputs=7, computed=8), 8, 9),
    ):
        check_caps(
            phase5,
            request,
            num_computed,
            budget=100,
            expected=expected,
            rule="A request needs all the tokens that it has, generated ones too.",
            hint=f"of its 10 prompt and 7 generated tokens {num_computed} are computed: which are left in your count?",
        )
    for status in (PREEMPTED, RUNNING):
        check_caps(
            phase5,
            request_in(status, "resumed", 10, num_outputs=7, computed=2),
            2,
            budget=100,
            expected=8,
            threshold=8,
            rule="The threshold cuts what one request gets in a step, whether it has generated tokens or not.",
            hint="15 tokens are left, 7 of them generated, and the threshold is 8. For which requests does it hold in "
            "your code?",
        )


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
def test_last_position_caps_running_requests_only(
    phase5: ModuleType, status: RequestStatus, num_tokens: int, num_computed: int, expected: int
) -> None:
    request = request_in(status, "A", num_tokens, computed=num_computed)
    check_caps(
        phase5,
        request,
        num_computed,
        budget=100,
        expected=expected,
        max_model_len=32,
        rule="A RUNNING request gets at most max_model_len - 1 - computed: its very last token is generated, never "
        "computed. Other requests have no such cap.",
        hint=f"{num_computed} of its {num_tokens} tokens are computed: how many are left, and how many of them does "
        "`max_model_len` allow for its status?",
    )


@pytest.mark.parametrize("seed", range(5))
def test_random_caps_against_the_naive_count(phase5: ModuleType, answers: Answers, seed: int) -> None:
    compare_random_caps(phase5, answers, seed, chunking=True)
