"""Graded tests of task 7.2: rejected drafts leave the counters."""

import random
from types import ModuleType

import pytest

from course.labtest.phase7.counters import check_roll_back, drafted
from course.labtest.phase7.whole_answers import answer_in_steps


@pytest.mark.parametrize(
    ("num_drafts", "num_sampled", "computed"),
    [
        (4, 1, 14),  # all four were wrong
        (4, 2, 15),
        (4, 4, 17),
        (4, 5, 18),  # all were right: nothing is taken back
        (1, 1, 17),
        (1, 2, 18),
    ],
)
def test_the_rejected_drafts_are_taken_back(
    phase7: ModuleType, num_drafts: int, num_sampled: int, computed: int
) -> None:
    check_roll_back(phase7, drafted(10, 4, [], computed=18), num_drafts, num_sampled, computed=computed)


@pytest.mark.parametrize(("num_sampled", "computed", "placeholders"), [(1, 15, 2), (2, 16, 3), (3, 17, 4), (4, 18, 5)])
def test_placeholders_of_rejected_drafts_are_given_back(
    phase7: ModuleType, num_sampled: int, computed: int, placeholders: int
) -> None:
    request = drafted(10, 4, [-1, -1], computed=18, placeholders=5)
    check_roll_back(phase7, request, 3, num_sampled, computed=computed, placeholders=placeholders)


@pytest.mark.parametrize("num_sampled", [1, 2, 3, 4])
def test_a_victim_has_nothing_computed_to_take_back(phase7: ModuleType, num_sampled: int) -> None:
    victim = drafted(10, 4, [], computed=17)
    victim.preempt()
    check_roll_back(phase7, victim, 3, num_sampled, computed=0)


@pytest.mark.parametrize("num_sampled", [1, 2, 3, 4])
def test_a_victim_in_flight_still_gives_its_placeholders_back(phase7: ModuleType, num_sampled: int) -> None:
    victim = drafted(10, 4, [], computed=17, placeholders=4)
    victim.preempt()
    check_roll_back(phase7, victim, 3, num_sampled, computed=0, placeholders=num_sampled)


@pytest.mark.parametrize("seed", range(5))
def test_after_every_step_the_newest_token_alone_is_not_computed(phase7: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(20):
        answer_in_steps(phase7, rng)
