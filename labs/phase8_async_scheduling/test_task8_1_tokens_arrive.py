"""Graded tests of task 8.1: what tokens give back that have arrived."""

from types import ModuleType

import pytest

from mini_vllm.core.request import RequestStatus
from mini_vllm.core.step import ScheduledRequest
from mini_vllm_labs.grading.labtest.cost import check_keeps_nothing
from mini_vllm_labs.grading.labtest.moments import KEPT
from mini_vllm_labs.grading.labtest.phase8.cases import check_fill, check_take, request_with, scheduling_of


@pytest.mark.parametrize(
    ("placeholders", "num_tokens", "most"),
    [
        (1, 1, 0),
        (2, 1, 0),  # a second step is in flight
        (4, 1, 2),  # all drafts of the first step were rejected, and taken back before: the second step's 3 stay
        (5, 2, 2),
        (6, 3, 2),
        (3, 3, 2),  # all drafts right, and no second step
        (9, 4, 4),
    ],
)
def test_tokens_that_have_arrived_give_back_their_placeholders(
    phase8: ModuleType, placeholders: int, num_tokens: int, most: int
) -> None:
    drafts = [-1] * most
    request = request_with(3, 4, computed=6 + placeholders - num_tokens, placeholders=placeholders, drafts=drafts)
    check_fill(scheduling_of(phase8, most), request, num_tokens)


@pytest.mark.parametrize(("placeholders", "num_tokens"), [(1, 1), (2, 2), (3, 3)])
def test_a_request_that_was_preempted_in_flight_gets_its_tokens_all_the_same(
    phase8: ModuleType, placeholders: int, num_tokens: int
) -> None:
    request = request_with(3, 2, computed=0, placeholders=placeholders, status=RequestStatus.PREEMPTED)
    check_fill(scheduling_of(phase8, 2), request, num_tokens)


def test_requests_leave_nothing_behind(phase8: ModuleType) -> None:
    scheduling = scheduling_of(phase8, 2)

    def use(name: str) -> None:
        request = request_with(3, computed=3, max_tokens=1, name=name)
        scheduling.take_placeholders(request, 0)
        scheduling.is_surely_over(request)
        phase8.correct_share(ScheduledRequest(request, 3, 3, [1], needs_token=True, draft_token_ids=[-1, -1]), 1, [7])
        scheduling.fill_placeholders(request, 1)

    rule = "Everything about a request is kept in the request: an aborted one is forgotten without a call."
    check_keeps_nothing(phase8, use, scheduling, what="requests came and went", rule=rule, hint=KEPT)


@pytest.mark.parametrize("most", [0, 2])
def test_steps_take_and_give_back_in_turns(phase8: ModuleType, most: int) -> None:
    scheduling, request = scheduling_of(phase8, most), request_with(3, computed=3)
    check_take(scheduling, request, 0, most)
    num_drafts_in_flight = 0
    for num_right in (0, 1, 2, 0, 2):
        request.spec_token_ids = []
        request.num_computed_tokens += 1 + most
        check_take(
            scheduling, request, most, most
        )  # the next step is planned, and the results of the one before arrive
        num_rejected = num_drafts_in_flight - min(num_right, num_drafts_in_flight)
        request.take_back(num_rejected)  # phase 7 does it
        request.num_output_placeholders -= num_rejected
        num_tokens = 1 + num_drafts_in_flight - num_rejected
        request.all_token_ids += range(num_tokens)  # 0 is a token like any other
        check_fill(scheduling, request, num_tokens)
        num_drafts_in_flight = most
