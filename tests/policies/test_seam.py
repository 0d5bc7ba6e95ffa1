"""FCFS and PRIORITY as policies decide exactly as the engine without the seam, that is, as vLLM, and at its cost."""

import sys
from pathlib import Path

import pytest

from course.parity.replay import compare
from course.parity.scenario import PUBLIC_FILES, Scenario, read_scenarios
from mini_vllm import EngineConfig
from mini_vllm.assembly.build_scheduler import build_scheduler
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.config import Policy
from mini_vllm.core.policy.scheduling_policy import SchedulingPolicy
from policies.priority import Priority
from policies.victims import LeastComputedFirst
from tests.policies.driven import AMPLE, asked

REFERENCE = parse_lineup("solution:1-5,solution:7-9,solution:11-12")
MEMBERS: dict[Policy, type[SchedulingPolicy]] = {"fcfs": SchedulingPolicy, "priority": Priority}


@pytest.mark.parametrize("file", PUBLIC_FILES, ids=lambda file: file.name)
def test_members_decide_as_vllm_block_for_block(file: Path) -> None:
    scenarios: list[Scenario] = [one for one in read_scenarios(file) if not one.defects]
    assert scenarios
    for scenario in scenarios:
        policy = MEMBERS[scenario.config().policy]()
        assert compare(scenario, REFERENCE, policy) is None, scenario.name


def calls_of_a_step(num_running: int, policy: SchedulingPolicy | None, config_policy: Policy) -> int:
    """Return how many functions are called in a step in which each request gets a token."""
    config = EngineConfig(**AMPLE | {"max_num_seqs": 64, "max_num_batched_tokens": 400, "policy": config_policy})
    scheduler, calls = build_scheduler(config, REFERENCE, policy=policy), list[str]()
    for number in range(num_running):
        scheduler.add_request(asked(f"{number:02}"))
    for watch in (lambda *_: None, lambda frame, event, _: calls.append(event)):
        sys.setprofile(watch)
        step = scheduler.schedule()
        samples = {row.request.request_id: [7] for row in scheduler.start_step(step)}
        scheduler.update_from_output(step, samples)
        sys.setprofile(None)
        assert len(samples) == num_running
    return len(calls)


@pytest.mark.parametrize("num_running", [1, 8, 64])
@pytest.mark.parametrize("name", MEMBERS)
def test_a_step_of_a_member_calls_as_many_functions_as_without_the_seam(name: Policy, num_running: int) -> None:
    assert calls_of_a_step(num_running, MEMBERS[name](), name) == calls_of_a_step(num_running, None, name)


def test_a_policy_that_only_chooses_victims_costs_a_step_nothing() -> None:
    assert calls_of_a_step(64, LeastComputedFirst(), "fcfs") == calls_of_a_step(64, None, "fcfs")


def test_fcfs_through_the_seam_is_the_engine_without_it() -> None:
    config = EngineConfig(**AMPLE)
    through, without = build_scheduler(config, REFERENCE, policy=SchedulingPolicy()), build_scheduler(config, REFERENCE)
    assert through.functions == without.functions
    assert [type(part) for part in (through.waiting, through.preemption, through.chunks)] == [
        type(part) for part in (without.waiting, without.preemption, without.chunks)
    ]
