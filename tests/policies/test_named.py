"""Properties of every policy: no request is lost or starves, nothing leaks, and no text changes.

FCFS and PRIORITY as policies make the same decisions as the engine without a policy, at the same cost.
"""

import random
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest

from mini_vllm import EngineConfig, SamplingParams
from mini_vllm.assembly.build import build_engine
from mini_vllm.assembly.build_scheduler import build_scheduler
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.config import Policy, SpeculativeConfig
from mini_vllm.core.invariants import check_drained
from mini_vllm.core.request import Request
from mini_vllm.electives.policy.scheduling_policy import PolicyClasses, SchedulingPolicy
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm_labs.grading import engine_checks
from mini_vllm_labs.policies.around import StaticBatching
from mini_vllm_labs.policies.elastic_budget import BudgetController
from mini_vllm_labs.policies.feedback_queues import FeedbackQueues
from mini_vllm_labs.policies.joint_order import JointOrder
from mini_vllm_labs.policies.named import POLICIES
from mini_vllm_labs.policies.priority import Priority
from mini_vllm_labs.policies.shortest_first import ShortestFirst
from mini_vllm_labs.policies.two_classes import TwoClasses
from mini_vllm_labs.policies.victims import LeastComputedFirst
from mini_vllm_labs.runs.parity.replay import compare
from mini_vllm_labs.runs.parity.scenario import PUBLIC_FILES, Scenario, read_scenarios
from solutions.phase13_scheduling_policies import LeastSlackFirst, VirtualTokenCounter
from tests.engine.workloads import draft_half_right, small_config
from tests.policies.driven import AMPLE, LEVELS, Driven, asked, mixed, tight

MAKERS: dict[str, Callable[[Mapping[str, int]], SchedulingPolicy]] = {
    **{name: named.make for name, named in POLICIES.items()},
    "joint vtc": lambda lengths: JointOrder(VirtualTokenCounter()),
    "joint slack": lambda lengths: JointOrder(LeastSlackFirst()),
    "few with urgent ones": lambda lengths: TwoClasses(urgent_batch_limit=2),
    "hasty queues": lambda lengths: FeedbackQueues(quantum=1, num_levels=3, starvation_seconds=0.03),
    "hasty budget": lambda lengths: BudgetController(JointOrder(LeastSlackFirst()), 0.05, 1, period=0.05),
    "static, shortest first": lambda lengths: StaticBatching(ShortestFirst(lambda request: len(lengths))),
}
LINEUPS = ("solution:1-5", "solution:1-5,solution:7-8")
REFERENCE = parse_lineup("solution:1-5,solution:7-9,solution:11-12")
MEMBERS: dict[Policy, type[SchedulingPolicy]] = {"fcfs": SchedulingPolicy, "priority": Priority}


class Broken(SchedulingPolicy):
    def rank(self, request: Request) -> int:
        raise ValueError("the policy cannot compute a rank")


def test_grading_runs_phase_13s_policies_in_engines(monkeypatch: pytest.MonkeyPatch) -> None:
    team = parse_lineup("solution:1-5,solution:13")
    assert engine_checks.check_stack(team, None).status == "passed"
    monkeypatch.setattr(engine_checks, "policy_classes_for", lambda impl: PolicyClasses(SchedulingPolicy, Broken))
    found = engine_checks.check_stack(team, None)
    assert (found.status, "the policy cannot compute a rank" in found.message) == ("failed", True)


def test_a_learners_file_that_cannot_be_read_breaks_its_two_policies_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    # as after a failed import
    monkeypatch.setitem(sys.modules, "solutions.phase13_scheduling_policies", None)
    monkeypatch.delattr("solutions.phase13_scheduling_policies")
    broken = set()
    for name, policy in POLICIES.items():
        try:
            policy.make({})
        except ImportError:
            broken.add(name)
    assert broken == {"least-slack", "vtc"}


@pytest.mark.parametrize("name", MAKERS)
def test_every_request_finishes_and_nothing_leaks(name: str) -> None:
    for seed in range(12):
        rng = random.Random(seed)
        requests = mixed(rng, 16, rng.choice((0.0, 0.5, 5.0)))

        def abort_some(driven: Driven, rng: random.Random = rng) -> None:
            if driven.scheduler.requests and rng.random() < 0.02:
                driven.abort(rng.choice(list(driven.scheduler.requests)))

        lengths = {request.request_id: request.sampling_params.max_tokens for request in requests}
        driven = Driven(MAKERS[name](lengths), requests, tight(rng), rng.choice((0.01, 0.3)), abort_some)
        assert all(request.is_finished for request in driven.requests.values())


@cache
def texts(name: str, lineup: str, seed: int) -> dict[str, str]:
    """Return the texts of an engine on the fake model, with some requests arriving in between and some aborted."""
    rng = random.Random(seed)
    settings = {"async_scheduling": True, "speculative_config": SpeculativeConfig(prompt_lookup_min=1)}
    config = small_config(
        num_gpu_blocks=rng.choice((12, 14, 20)), max_num_batched_tokens=rng.choice((6, 40)),
        max_num_seqs=rng.choice((2, 4)), **(settings if "8" in lineup else {}),
    )  # fmt: skip
    outputs = {f"r{number}": rng.randint(1, 12) for number in range(12)}
    engine: LLMEngine = build_engine(config, parse_lineup(lineup), scheduling_policy=MAKERS[name](outputs))
    draft_half_right(engine)
    found: dict[str, str] = {}
    for number, (request_id, num_output) in enumerate(outputs.items()):
        prompt = [*[number % 2] * rng.randint(0, 16), *rng.choices(range(1000), k=rng.randint(1, 9))]
        engine.add_request(request_id, prompt, SamplingParams(max_tokens=num_output), priority=number % 3)
        request = engine.scheduler.requests[request_id]
        request.tenant, request.service_level = "ab"[number % 2], LEVELS[number // 2 % 3]
        for _ in range(rng.choice((0, 0, 1, 3))):
            found |= {output.request_id: output.outputs[0].text for output in engine.step() if output.finished}
    engine.abort_request("r11")
    for _ in range(2000):
        if not engine.has_unfinished_requests():
            break
        found |= {output.request_id: output.outputs[0].text for output in engine.step() if output.finished}
    check_drained(engine.scheduler)
    return {request_id: text for request_id, text in found.items() if request_id != "r11"}


@pytest.mark.parametrize("lineup", LINEUPS)
@pytest.mark.parametrize("name", MAKERS)
def test_the_texts_are_those_of_first_come_first_served(name: str, lineup: str) -> None:
    for seed in range(4):
        expected = texts("fcfs", lineup, seed)
        assert len(expected) == 11
        assert texts(name, lineup, seed) == expected


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
