"""`what_if`, the simulation with the real scheduler, and the whole engine agree on every number."""

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mini_vllm import EngineConfig, parse_lineup
from mini_vllm.assembly.build import build_engine
from mini_vllm_labs.runs.workloads.ablation import outputs_in_time
from mini_vllm_labs.runs.workloads.simulated_time import TimedRunner, VirtualClock
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from mini_vllm_labs.simulation.cost_model import CostModel
from mini_vllm_labs.simulation.served import Served
from mini_vllm_labs.simulation.simulation import simulate
from mini_vllm_labs.simulation.what_if import what_if

LINEUP = parse_lineup("solution:1-5")
COSTS = [
    CostModel(1e6, 10.0, 1e4, 1e3, 1.0, bandwidth=1e8, flop_rate=1e8, seconds_per_step=1e-3, seconds_per_request=1e-5),
    CostModel(0, 1.0, 1.0, 1.0, 1.0, bandwidth=1e3, flop_rate=1e3, seconds_per_step=0, seconds_per_request=0),
]
SMALL = st.integers(1, 12)


@st.composite
def workloads(draw: st.DrawFn) -> list[TimedRequest]:
    gaps = draw(st.lists(st.sampled_from([0.0, 0.0, 0.01, 0.05, 1.0]), min_size=1, max_size=25))
    time, requests = 0.0, []
    for number, gap in enumerate(gaps):
        time += gap
        prompt = [number] * draw(st.integers(1, 60))
        requests.append(TimedRequest(time, str(number), prompt, draw(SMALL)))
    return requests


@st.composite
def configs(draw: st.DrawFn) -> EngineConfig:
    chunked = draw(st.booleans())
    return EngineConfig(
        max_num_seqs=draw(st.integers(1, 20)),
        max_num_batched_tokens=draw(st.integers(1, 100)) if chunked else draw(st.integers(72, 120)),
        long_prefill_token_threshold=draw(st.sampled_from([0, 1, 7, 16, 40])),
        enable_chunked_prefill=chunked,
        enable_prefix_caching=draw(st.booleans()),
        max_model_len=72,
        block_size=4,
        num_gpu_blocks=1000,
    )


def result(served: Served) -> dict[str, object]:
    """Return all figures except the hit rate, which `what_if` does not model. Gaps are counted by length, regardless of
    their order."""
    gaps: Counter[float] = Counter()
    for seconds, count in served.gaps:
        gaps[seconds] += count
    return {
        "first": served.first_token_times,
        "finished": served.finished_times,
        "gaps": gaps,
        "counts": (served.num_steps, served.num_computed_tokens, served.num_preemptions),
        "peaks": (served.peak_context_tokens, served.most_running),
    }


@given(workloads(), configs(), st.sampled_from(COSTS))
def test_what_if_equals_the_simulation(requests: list[TimedRequest], config: EngineConfig, cost: CostModel) -> None:
    assert result(what_if(requests, config, cost)) == result(simulate(requests, config, cost, LINEUP))


def engine_times(
    requests: list[TimedRequest], config: EngineConfig, cost: CostModel
) -> tuple[list[float], list[float]]:
    """Serve the requests with a complete `LLMEngine`; return the times of the first and last tokens."""
    clock = VirtualClock()
    engine = build_engine(config, LINEUP)
    engine.runner, engine.clock = TimedRunner(engine.runner, clock, cost), clock
    first, last = [0.0] * len(requests), [0.0] * len(requests)
    for output in outputs_in_time(engine, clock, requests):
        first[int(output.request_id)] = first[int(output.request_id)] or clock.now
        last[int(output.request_id)] = clock.now
    return first, last


@given(workloads(), configs(), st.integers(19, 40))
def test_the_simulation_equals_the_engine(requests: list[TimedRequest], config: EngineConfig, num_blocks: int) -> None:
    """The simulation and the engine agree even with little memory, when requests are preempted and recomputed."""
    config = replace(config, num_gpu_blocks=num_blocks, check_invariants=True)
    served = simulate(requests, config, COSTS[0], LINEUP)
    assert (served.first_token_times, served.finished_times) == engine_times(requests, config, COSTS[0])


@given(workloads(), st.integers(19, 30))
def test_every_token_after_the_first_has_one_gap(requests: list[TimedRequest], num_blocks: int) -> None:
    config = EngineConfig(max_model_len=72, block_size=4, num_gpu_blocks=num_blocks)
    served = simulate(requests, config, COSTS[0], LINEUP)
    assert sum(count for _, count in served.gaps) == sum(request.num_output_tokens - 1 for request in requests)
    waited = sum(seconds * count for seconds, count in served.gaps)
    spans = zip(served.first_token_times, served.finished_times, strict=True)
    assert waited == pytest.approx(sum(last - first for first, last in spans))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"policy": "priority"}, "policy must be 'fcfs' for a what-if, got 'priority'"),
        ({"enable_chunked_prefill": False, "max_num_batched_tokens": 9}, "max_num_batched_tokens must be at least 10"),
    ],
)
def test_settings_that_it_does_not_model_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        what_if([TimedRequest(0.0, "0", [1] * 10, 2)], EngineConfig(**settings), COSTS[0])  # type: ignore[arg-type]


@pytest.mark.parametrize(("times", "message"), [([1.0, 0.5], "sorted by arrival_time"), ([], "at least one request")])
def test_requests_out_of_order_and_none_at_all_are_refused(times: list[float], message: str) -> None:
    requests = [TimedRequest(time, str(time), [1] * 4, 2) for time in times]
    config = EngineConfig(max_model_len=72, num_gpu_blocks=100)
    with pytest.raises(ValueError, match=message):
        what_if(requests, config, COSTS[0])
    with pytest.raises(ValueError, match=message):
        simulate(requests, config, COSTS[0], LINEUP)
