"""Graded tests of task 7.2: the drafts that were scheduled."""

import random
from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.expect import expect_equal
from mini_vllm_labs.grading.labtest.moments import Living
from mini_vllm_labs.grading.labtest.phase7.counters import (
    check_schedule_drafts,
    drafted,
    random_drafted,
    scheduling_of,
    state_of,
)
from mini_vllm_labs.grading.labtest.recorded import Answers


@pytest.mark.parametrize(
    ("computed", "expected"),
    [
        (17, [7, 0, 9]),  # 14 known tokens and all three drafts
        (16, [7, 0]),  # the budget has cut one off
        (15, [7]),
        (14, []),  # the last known token fits, no draft
    ],
)
def test_drafts_behind_the_cut_are_not_scheduled(phase7: ModuleType, computed: int, expected: list[int]) -> None:
    check_schedule_drafts(phase7, drafted(10, 4, [7, 0, 9], computed=computed), expected)


@pytest.mark.parametrize("computed", [5, 12, 13])
def test_a_step_that_does_not_reach_the_drafts_has_scheduled_none(phase7: ModuleType, computed: int) -> None:
    check_schedule_drafts(phase7, drafted(10, 4, [7, 8, 9], computed=computed), [])


@pytest.mark.parametrize(
    ("placeholders", "computed", "expected"),
    [(1, 18, [-1, -1, -1]), (1, 17, [-1, -1]), (1, 15, []), (4, 21, [-1, -1, -1]), (4, 19, [-1]), (4, 16, [])],
)
def test_placeholders_come_before_the_drafts(
    phase7: ModuleType, placeholders: int, computed: int, expected: list[int]
) -> None:
    request = drafted(10, 4, [-1, -1, -1], computed=computed, placeholders=placeholders)
    check_schedule_drafts(phase7, request, expected)


def test_each_object_keeps_its_settings(phase7: ModuleType) -> None:
    settings = [(4, True), (7, True), (4, False)]
    objects = [phase7.SpeculativeScheduling(*one) for one in settings]
    kept = list(map(state_of, objects))
    alike = [
        f"{settings[one]} and {settings[other]}" for one, other in ((0, 1), (0, 2), (1, 2)) if kept[one] == kept[other]
    ]
    expect_equal(
        {"objects that keep the same": alike},
        {"objects that keep the same": []},
        rule="`__init__` keeps both settings in the object: task 7.3 asks for them, and two engines have two objects.",
        situation=f"three objects with (num_speculative_tokens, drafter_has_kv_cache) = {settings}",
        hint="where does your `__init__` put what it is given: into `self`, or nowhere, or into the class?",
    )


def test_without_drafts_there_are_none(phase7: ModuleType) -> None:
    check_schedule_drafts(phase7, drafted(10, 4, [], computed=14), [])
    check_schedule_drafts(phase7, drafted(10, 0, [], computed=6), [])


def test_drafts_may_be_equal_and_token_0(phase7: ModuleType) -> None:
    check_schedule_drafts(phase7, drafted(3, 1, [0, 0, 0], computed=6), [0, 0])
    check_schedule_drafts(phase7, drafted(3, 1, [0], computed=5), [0])


def test_the_scheduled_drafts_are_a_list_of_their_own(phase7: ModuleType) -> None:
    check_schedule_drafts(phase7, drafted(3, 1, [5, 6], computed=6), [5, 6])
    request = drafted(3, 1, [5, 6], computed=6)
    scheduled = scheduling_of(phase7).schedule_drafts(request)
    request.spec_token_ids.append(8)
    expect_equal(
        {"the scheduled drafts": list(scheduled), "the request's drafts": request.spec_token_ids},
        {"the scheduled drafts": [5, 6], "the request's drafts": [8]},
        rule="The drafts that were returned and the request's next ones are two lists.",
        situation="drafts [5, 6], both scheduled; then the request's own list of drafts got an 8",
        hint="which list does the request hold when your method returns?",
    )


@pytest.mark.parametrize("seed", range(5))
def test_random_requests_against_tokens_in_a_row(phase7: ModuleType, answers: Answers, seed: int) -> None:
    rng = random.Random(seed)
    living, scheduling = Living(rng), scheduling_of(phase7)
    for _ in range(200):
        check_schedule_drafts(phase7, living.now(random_drafted(rng)), answers, scheduling)
