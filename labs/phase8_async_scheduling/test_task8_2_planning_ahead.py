"""Graded tests of task 8.2: all steps of a request, each planned before the results of the one before."""

import random
from types import ModuleType

import pytest

from course.labtest.expect import expect_equal, fail_with_smallest
from course.labtest.phase8.cases import scheduling_of
from course.labtest.phase8.races import Race, Turn, random_races
from course.labtest.recorded import Answers, first_difference

NUM_RUNS = 30


@pytest.mark.parametrize("max_tokens", [1, 2, 3, 6])
@pytest.mark.parametrize("num_prompt", [1, 3])
def test_without_drafts_no_token_is_planned_in_vain(
    phase8: ModuleType, answers: Answers, num_prompt: int, max_tokens: int
) -> None:
    race = Race(scheduling_of(phase8, 0), "A", num_prompt, max_tokens, 0)
    while not race.is_done:
        race.must_agree(answers, Turn(budget=10))
    expect_equal(
        {"tokens computed in all": race.num_planned, "steps": race.number},
        {"tokens computed in all": num_prompt + max_tokens - 1, "steps": max_tokens},
        rule="The last token is generated and never computed: prompt + max_tokens - 1 tokens are.",
        situation=race.history,
        hint="which step was planned too much, and which counter said so?",
    )


@pytest.mark.parametrize("accepted", [(0,), (1,), (2,), (0, 2), (2, 1, 0)])
@pytest.mark.parametrize("max_tokens", [1, 2, 3, 9])
def test_plans_with_drafts_follow_what_is_accepted(
    phase8: ModuleType, answers: Answers, max_tokens: int, accepted: tuple[int, ...]
) -> None:
    race = Race(scheduling_of(phase8, 2), "A", 3, max_tokens, 2)
    while not race.is_done:
        race.must_agree(answers, Turn(10, accepted[race.number % len(accepted)]))


@pytest.mark.parametrize("most", [0, 2])
def test_a_prompt_in_chunks_samples_once(phase8: ModuleType, answers: Answers, most: int) -> None:
    race = Race(scheduling_of(phase8, most), "A", 10, 3, most)
    while not race.is_done:
        race.must_agree(answers, Turn(4))


@pytest.mark.parametrize("most", [0, 2])
@pytest.mark.parametrize("when", range(1, 6))
def test_preempted_in_flight_and_resumed(phase8: ModuleType, answers: Answers, when: int, most: int) -> None:
    race = Race(scheduling_of(phase8, most), "A", 3, 6, most)
    while not race.is_done:
        race.must_agree(answers, Turn(4, 1, preempts=race.number + 1 == when))


@pytest.mark.parametrize("most", [0, 1, 3])
def test_a_step_without_budget_changes_nothing(phase8: ModuleType, answers: Answers, most: int) -> None:
    race = Race(scheduling_of(phase8, most), "A", 4, 8, most)
    while not race.is_done:
        race.must_agree(answers, Turn((6, 0, 1, 2)[race.number % 4], 1))


@pytest.mark.parametrize("most", [0, 1, 2, 4])
@pytest.mark.parametrize("seed", range(4))
def test_random_steps_of_three_requests(phase8: ModuleType, answers: Answers, seed: int, most: int) -> None:
    def report(case: int) -> str:
        return first_difference(
            answers, lambda: random_races(scheduling_of(phase8, most), most, random.Random(NUM_RUNS * seed + case))
        )

    fail_with_smallest(map(report, range(NUM_RUNS)))
