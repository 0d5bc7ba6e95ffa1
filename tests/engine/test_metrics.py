"""Metrics of a request, on a clock that the test moves by hand."""

from types import SimpleNamespace

import pytest

from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.outputs import RequestMetrics, RequestOutput
from mini_vllm.sampling_params import SamplingParams
from tests.engine.workloads import drain, make_engine, small_config


@pytest.fixture
def clock() -> SimpleNamespace:
    return SimpleNamespace(now=100.0)


@pytest.fixture
def engine(clock: SimpleNamespace) -> LLMEngine:
    engine = make_engine(small_config(max_num_seqs=1))
    engine.clock = lambda: clock.now
    return engine


def test_every_latency_is_the_difference_of_two_readings(engine: LLMEngine, clock: SimpleNamespace) -> None:
    engine.add_request("first", [1, 2, 3], SamplingParams(max_tokens=3))
    clock.now = 101.0
    engine.add_request("second", [1, 2, 3], SamplingParams(max_tokens=2))
    outputs: dict[str, RequestOutput] = {}
    for now in (104.0, 106.0, 109.0, 113.0, 120.0):
        clock.now = now
        outputs |= {output.request_id: output for output in engine.step()}
    first, second = outputs["first"].metrics, outputs["second"].metrics
    assert (first.queue_time, first.time_to_first_token, first.e2e_latency) == (4.0, 4.0, 9.0)
    assert (second.queue_time, second.time_to_first_token, second.e2e_latency) == (12.0, 12.0, 19.0)
    assert (first.inter_token_latency, second.inter_token_latency) == (2.5, 7.0)
    assert (first.num_output_tokens, second.num_output_tokens) == (3, 2)


def test_a_chunked_prompt_leaves_the_queue_before_its_first_token(clock: SimpleNamespace) -> None:
    engine = make_engine(small_config(max_num_batched_tokens=4))
    engine.clock = lambda: clock.now
    engine.add_request("r", list(range(10)), SamplingParams(max_tokens=1))
    outputs = []
    for now in (101.0, 102.0, 105.0):
        clock.now = now
        outputs += engine.step()
    (output,) = outputs
    assert (output.metrics.queue_time, output.metrics.time_to_first_token) == (1.0, 5.0)
    assert output.metrics.inter_token_latency is None, "a single token has no inter-token latency"


def test_an_aborted_request_that_never_ran_has_only_an_end_to_end_latency(
    engine: LLMEngine, clock: SimpleNamespace
) -> None:
    engine.add_request("r", [1])
    clock.now = 107.0
    output = engine.abort_request("r")
    assert output is not None
    metrics = output.metrics
    assert (metrics.e2e_latency, metrics.queue_time, metrics.time_to_first_token) == (7.0, None, None)
    assert (metrics.inter_token_latency, metrics.num_output_tokens, metrics.num_cached_tokens) == (None, 0, 0)


def test_preemptions_and_the_hit_of_the_first_admission_are_counted() -> None:
    engine = make_engine(small_config(num_gpu_blocks=6))
    engine.add_request("warm", list(range(8)), SamplingParams(max_tokens=1))
    drain(engine)
    engine.add_request("A", list(range(8)), SamplingParams(max_tokens=9))
    engine.add_request("B", list(range(100, 107)), SamplingParams(max_tokens=6))
    metrics = {name: output.metrics for name, output in drain(engine).items()}
    assert {name: (m.num_preemptions, m.num_cached_tokens) for name, m in metrics.items()} == {"A": (0, 4), "B": (1, 0)}


def test_a_new_request_has_no_latencies() -> None:
    metrics = RequestMetrics(arrival_time=5.0)
    metrics.tokens_arrived(6.0, 0)
    assert (metrics.queue_time, metrics.time_to_first_token, metrics.e2e_latency) == (None, None, None)
    metrics.tokens_arrived(7.0, 2)
    metrics.tokens_arrived(9.0, 3)
    assert (metrics.time_to_first_token, metrics.inter_token_latency, metrics.num_output_tokens) == (2.0, 1.0, 3)
