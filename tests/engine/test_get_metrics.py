"""`LLM.get_metrics()`, the log lines, and the metrics of a request, with a clock that the test advances."""

import logging
from dataclasses import replace
from types import SimpleNamespace

import pytest

from mini_vllm import LLM, EngineConfig, SamplingParams, parse_lineup
from mini_vllm.config import SpeculativeConfig
from mini_vllm.engine.counts import Counts, bounds_1_2_5
from mini_vllm.engine.errors import QueueFullError
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.metrics import (
    Counter,
    Gauge,
    Histogram,
    Metric,
    StatLogger,
    StepLogger,
    Vector,
    get_metrics_snapshot,
)
from mini_vllm.engine.statistics import EngineStatistics
from mini_vllm.outputs import RequestMetrics, RequestOutput
from tests.engine.workloads import drain, make_engine, small_config

CONFIG = EngineConfig(num_gpu_blocks=20, max_model_len=200)


def counted_llm(config: EngineConfig = CONFIG, lineup: str = "solution:1-5") -> LLM:
    return LLM(config=config, lineup=parse_lineup(lineup), disable_log_stats=False)


def by_name(llm: LLM) -> dict[str, Metric]:
    return {metric.name + metric.labels.get("finished_reason", ""): metric for metric in llm.get_metrics()}


def test_metrics_have_vllms_shapes() -> None:
    llm = counted_llm()
    llm.generate(["x" * 40, "y" * 40], SamplingParams(max_tokens=3))
    metrics, labels = by_name(llm), {"model_name": "mini-vllm", "engine": "0"}
    assert metrics["vllm:generation_tokens"] == Counter("vllm:generation_tokens", labels, 6)
    assert metrics["vllm:num_requests_running"] == Gauge("vllm:num_requests_running", labels, 0)
    ended = metrics["vllm:request_successlength"]
    assert ended == Counter("vllm:request_success", {**labels, "finished_reason": "length"}, 2)
    prompts = metrics["vllm:request_prompt_tokens"]
    assert isinstance(prompts, Histogram)
    assert (prompts.count, prompts.sum) == (2, 80)
    at_most = {"1.0": 0, "2.0": 0, "5.0": 0, "10.0": 0, "20.0": 0, "50.0": 2, "100.0": 2, "200.0": 2, "+Inf": 2}
    assert prompts.buckets == at_most
    asked = metrics["vllm:request_params_n"]
    assert isinstance(asked, Histogram)
    assert (asked.count, asked.sum) == (2, 2)
    cache = metrics["vllm:cache_config_info"]
    assert cache.labels["num_gpu_blocks"] == "20"
    assert "model_name" not in cache.labels


def test_accepted_drafts_are_a_vector_by_position() -> None:
    llm = counted_llm(replace(CONFIG, speculative_config=SpeculativeConfig()), "solution:1-5,solution:7")
    llm.generate("abcabcabcabc" * 5, SamplingParams(max_tokens=60))
    metrics = by_name(llm)
    per_position, accepted = (metrics[f"vllm:spec_decode_num_accepted_tokens{end}"] for end in ("_per_pos", ""))
    assert isinstance(per_position, Vector)
    assert isinstance(accepted, Counter)
    assert len(per_position.values) == 4
    assert sum(per_position.values) == accepted.value


def test_without_statistics_the_error_says_how_to_get_them() -> None:
    with pytest.raises(ValueError, match="get_metrics needs disable_log_stats=False"):
        LLM(config=CONFIG, lineup=parse_lineup("solution:1-5")).get_metrics()


def test_the_first_of_fifty_preemptions_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    llm = counted_llm()
    prompts = [letter * 60 for letter in "uvwxyz"]
    while next(one.value for one in llm.get_metrics() if isinstance(one, Counter) and "preempt" in one.name) <= 50:
        llm.generate(prompts, SamplingParams(max_tokens=60))
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [line.rpartition("=")[2] for line in said] == ["1", "51"]
    assert said[0].startswith("Sequence group ")
    assert " is preempted by PreemptionMode.RECOMPUTE mode because there is not enough KV cache space. " in said[0]


def test_the_log_line_has_rates_since_the_previous_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    counts = Counts.of(counted_llm().engine)
    stat_logger = StatLogger(100.0)
    counts.counters |= {"prompt_tokens": 500, "generation_tokens": 50, "num_preemptions": 2}
    counts.recent_lookups.extend([(300, 0), (100, 100)])
    counts.gauges |= {"num_requests_running": 3, "num_requests_waiting": 4, "kv_cache_usage_perc": 0.125}
    for now in (110.0, 120.0, 130.0):
        stat_logger.log(counts, now)
    assert caplog.messages[0] == (
        "Engine 000: Avg prompt throughput: 50.0 tokens/s, Avg generation throughput: 5.0 tokens/s, Running: 3 reqs, "
        "Waiting: 4 reqs, Preemptions: 2, GPU KV cache usage: 12.5%, Prefix cache hit rate: 25.0%"
    )
    assert "throughput: 0.0 tokens/s, Running: 3 reqs, Waiting: 4 reqs, GPU KV" in caplog.messages[1]
    assert caplog.messages[1].endswith("hit rate: 25.0%"), "not only since the line before"
    assert [record.levelname for record in caplog.records] == ["INFO", "INFO", "DEBUG"], "idle twice in a row: no noise"


def test_the_hit_rate_is_that_of_the_latest_1000_requests() -> None:
    counts = Counts.of(counted_llm().engine)
    assert counts.recent_hit_rate() == 0
    counts.recent_lookups.extend([(10, 0)] * 500 + [(10, 10)] * 500)
    assert counts.recent_hit_rate() == 0.5
    counts.recent_lookups.extend([(30, 30)] * 500)
    assert counts.recent_hit_rate() == 1


def test_each_request_counts_as_one_lookup() -> None:
    llm = counted_llm()
    llm.generate(["x" * 60] * 2, SamplingParams(max_tokens=3))
    assert llm._statistics is not None
    lookups = list(llm._statistics.counts.recent_lookups)
    counters = llm._statistics.counts.counters
    assert len(lookups) == 2
    assert [sum(numbers) for numbers in zip(*lookups, strict=True)] == [
        counters["prefix_cache_queries"],
        counters["prefix_cache_hits"],
    ]


def test_a_line_comes_with_the_first_step_after_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    engine, now = LLM(config=CONFIG, lineup=parse_lineup("solution:1-5")).engine, [0.0]
    engine.clock = lambda: now[0]
    statistics = EngineStatistics(engine)
    engine.add_observer(statistics)
    engine.add_observer(StepLogger(engine, statistics.counts))
    engine.add_request("a", "x" * 10, SamplingParams(max_tokens=5))
    for now[0] in (1.0, 9.9, 10.0, 19.9, 20.0):
        engine.step()
    assert len(caplog.messages) == 2
    assert "Avg generation throughput: 0.3 tokens/s" in caplog.messages[0]


@pytest.mark.parametrize("release", ["0.13.0", "0.33.0"])
def test_the_reasons_add_up_to_the_waiting_requests_in_every_step(
    release: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    config = small_config(max_num_seqs=2, max_loras=1, max_num_waiting=5, vllm=release)
    engine, now = make_engine(config, "solution:1-5,solution:11,solution:14"), 0.0
    engine.clock = lambda: now
    statistics = EngineStatistics(engine)
    engine.add_observer(statistics)
    engine.add_observer(StepLogger(engine, statistics.counts))
    for name, adapter in {"a": "red", "b": "blue", "c": "red", "d": None, "e": None}.items():
        engine.add_request(name, list(range(5)), SamplingParams(max_tokens=3, ignore_eos=True), adapter_id=adapter)
    with pytest.raises(QueueFullError):
        engine.add_request("f", [1])
    found = []
    while engine.has_unfinished_requests():
        now += 10
        engine.step()
        metrics = list(get_metrics_snapshot(statistics.counts, "m"))
        waiting = {
            one.labels.get("reason", ""): one.value
            for one in metrics
            if isinstance(one, Gauge) and "waiting" in one.name
        }
        assert waiting.pop("") == sum(waiting.values())
        found.append((waiting["capacity"], waiting["deferred"]))
    assert found[0] == (2, 1), "blue waits for a place, and the last two for a seat"
    assert found[-1] == (0, 0)
    assert "Waiting: 3 reqs (seats 2, adapter 1), " in caplog.messages[0]
    assert "Waiting: 0 reqs, " in caplog.messages[-1]
    rejected = {"model_name": "m", "reason": "max_num_queued_reqs"}
    assert Counter("vllm:admission_rejections", rejected, 1) in metrics
    assert not engine.scheduler.witnesses, "the next step is not explained"


def test_bucket_bounds_are_1_2_5_up_to_the_longest_request() -> None:
    assert bounds_1_2_5(100) == [1, 2, 5, 10, 20, 50, 100]
    assert bounds_1_2_5(99)[-1] == 50
    assert bounds_1_2_5(1) == [1]


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
