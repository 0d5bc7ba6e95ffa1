"""Every policy on the real model: texts do not change, invariants hold, and the simulator predicts the finishing
order."""

import pytest

from mini_vllm import EngineConfig, parse_lineup
from mini_vllm.assembly.build import build_engine
from mini_vllm.assembly.build_scheduler import build_scheduler
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.sampling_params import SamplingParams
from mini_vllm_labs.policies.named import POLICIES
from mini_vllm_labs.runs.workloads.simulated_time import VirtualClock
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from mini_vllm_labs.simulation.arena.loads import LATER, NORMAL, URGENT
from mini_vllm_labs.simulation.cost_model import CostModel
from mini_vllm_labs.simulation.experiment import Experiment
from mini_vllm_labs.simulation.simulation import Simulation

CONFIG = EngineConfig(
    max_num_seqs=3, max_num_batched_tokens=24, block_size=8, num_gpu_blocks=16, max_model_len=64, check_invariants=True
)
# Prompt and output lengths in tokens: more than the slots and the memory can hold at once.
LENGTHS = [(30, 20), (5, 9), (17, 3), (9, 26), (24, 14), (6, 6), (12, 17)]
LEVELS = (URGENT, NORMAL, LATER)


def requests() -> list[TimedRequest]:
    """Return requests from three tenants and classes, all arriving at time 0."""
    return [
        TimedRequest(
            0.0, str(number), [100 + (number * 7 + place * 3) % 90 for place in range(prompt)], output,
            priority=number % 3, tenant=f"tenant {number % 3}", service_level=LEVELS[number % 3],
        )
        for number, (prompt, output) in enumerate(LENGTHS)
    ]  # fmt: skip


def lengths() -> dict[str, int]:
    return {one.request_id: one.num_output_tokens for one in requests()}


def engine_with(policy: SchedulingPolicy) -> LLMEngine:
    """Return an engine with the embedded model in which all requests wait. The engine's clock always reads 0."""
    engine = build_engine(CONFIG, parse_lineup("solution"), scheduling_policy=policy, clock=lambda: 0.0)
    for one in requests():
        params = SamplingParams(max_tokens=one.num_output_tokens, ignore_eos=True)
        engine.add_request(
            one.request_id, [*one.prompt_token_ids], params, priority=one.priority, tenant=one.tenant,
            service_level=one.service_level,
        )  # fmt: skip
    return engine


def serve(engine: LLMEngine) -> dict[str, tuple[int, ...]]:
    """Serve all requests; return their tokens in the order in which they finish."""
    finished: dict[str, tuple[int, ...]] = {}
    while engine.has_unfinished_requests():
        ended = [output for output in engine.step() if output.finished]
        finished |= {output.request_id: tuple(output.outputs[0].token_ids) for output in ended}
    assert engine.scheduler.kv.num_free_blocks == engine.scheduler.kv.num_usable_blocks
    return finished


def steps_of_finish(engine: LLMEngine) -> list[set[str]]:
    """Serve all requests; for each step in which requests finish, return those requests."""
    finished = []
    while engine.has_unfinished_requests():
        finished.append({output.request_id for output in engine.step() if output.finished})
    return list(filter(None, finished))


def simulated_steps(policy: SchedulingPolicy, cost: CostModel) -> list[set[str]]:
    """Return what `steps_of_finish` returns, but from the simulator."""
    clock = VirtualClock()
    scheduler = build_scheduler(CONFIG, parse_lineup("solution:1-5"), policy=policy, clock=lambda: 0.0)
    served = Simulation(requests(), scheduler, cost, clock=clock).run()
    moments: dict[float, set[str]] = {}
    for number, time in enumerate(served.finished_times):
        moments.setdefault(time, set()).add(str(number))
    return [moments[time] for time in sorted(moments)]


@pytest.fixture(scope="module")
def first_come() -> dict[str, tuple[int, ...]]:
    return serve(engine_with(SchedulingPolicy()))


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_changes_the_order_and_no_text(name: str, first_come: dict[str, tuple[int, ...]]) -> None:
    finished = serve(engine_with(POLICIES[name].make(lengths())))
    assert finished == first_come
    assert set(finished) == {str(number) for number in range(len(LENGTHS))}


@pytest.mark.parametrize("name", POLICIES)
def test_the_simulator_finds_the_order_of_the_real_runner(name: str) -> None:
    steps = steps_of_finish(engine_with(POLICIES[name].make(lengths())))
    assert steps == simulated_steps(POLICIES[name].make(lengths()), Experiment().cost)


def test_the_orders_differ() -> None:
    orders = {tuple(serve(engine_with(POLICIES[name].make(lengths())))) for name in ("fcfs", "priority", "sjf", "vtc")}
    assert len(orders) == 4
