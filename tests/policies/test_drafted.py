"""Drafts in simulated time: their gain, cost and number per class; without drafts, nothing changes."""

from dataclasses import replace

import pytest

from mini_vllm import parse_lineup
from mini_vllm.core.request import Request
from mini_vllm.core.service_level import ServiceLevel
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.electives.policy.policy_queue import PolicyQueue
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy, StepView
from mini_vllm_labs.policies.drafts_by_class import DraftsByClass
from mini_vllm_labs.simulation.arena.drafted import DraftedRace, DraftedSimulation, Drafter, HurriedLoad
from mini_vllm_labs.simulation.arena.loads import LATER, NORMAL, URGENT
from mini_vllm_labs.simulation.cost_model import CostModel
from mini_vllm_labs.simulation.simulation import simulate
from tests.policies.races import EXPERIMENT, REFERENCE

TOKENS_ALONE = CostModel(0, 0, 1, 100, 0, bandwidth=1, flop_rate=1)
RACE = DraftedRace(
    DraftsByClass(),
    Drafter(EXPERIMENT.cost, 4),
    HurriedLoad("burst", 100, 60.0),
    0,
    EXPERIMENT.resolved_engine(),
    EXPERIMENT.cost,
    parse_lineup("solution:1-5,solution:7"),
)


def test_a_race_without_drafts_takes_the_times_of_the_arena() -> None:
    ours = DraftedSimulation(replace(RACE, drafter=Drafter(EXPERIMENT.cost, 0))).run()
    plain = simulate(RACE.load.requests(0), RACE.engine, RACE.cost, REFERENCE)
    assert ours.finished_times == pytest.approx(plain.finished_times)
    assert ours.first_token_times == pytest.approx(plain.first_token_times)
    assert ours.num_computed_tokens == plain.num_computed_tokens


@pytest.mark.parametrize(("is_right", "level", "per_step"), [(True, URGENT, 5), (True, NORMAL, 3), (False, URGENT, 1)])
def test_a_step_brings_the_right_drafts_and_a_token(is_right: bool, level: ServiceLevel, per_step: int) -> None:
    simulation = DraftedSimulation(RACE)
    simulation.requests = [replace(simulation.requests[0], max_tokens=31, service_level=level)]
    simulation.is_guessed = [[is_right] * 31]
    assert simulation.run().num_steps == 1 + 30 / per_step


def test_drafting_costs_a_pass_over_the_step_and_one_for_each_further_draft() -> None:
    prompt = ScheduledRequest(Request("p", [1] * 10), 0, 10, [1], needs_token=False)
    decode = ScheduledRequest(Request("d", [1]), 0, 3, [2], needs_token=True, draft_token_ids=[1, 1])
    assert TOKENS_ALONE.seconds([prompt, decode]) == 13 + 300, "a draft is checked by logits of its own"
    assert Drafter(TOKENS_ALONE, 0).seconds([prompt, decode]) == 0
    one, three = (Drafter(TOKENS_ALONE, number).seconds([prompt, decode]) for number in (1, 3))
    assert three - one == 2 * (1 + 100)


@pytest.mark.parametrize(
    ("level", "kept"), [(URGENT, [1, 2, 3, 4, 5]), (NORMAL, [1, 2]), (LATER, []), (ServiceLevel("other"), [1, 2])]
)
def test_each_class_keeps_its_first_drafts(level: ServiceLevel, kept: list[int]) -> None:
    request = Request("a", [1, 2], service_level=level)
    request.spec_token_ids = [1, 2, 3, 4, 5]
    DraftsByClass().start_step(StepView(0.0, [request], PolicyQueue(SchedulingPolicy()), 9, 4, 8, 64))
    assert request.spec_token_ids == kept


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(ValueError, match="the draft limit for 'urgent' must be at least 0, got -1"):
        DraftsByClass({"urgent": -1})
