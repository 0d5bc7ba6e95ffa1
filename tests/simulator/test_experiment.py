"""Experiments: settings as typed, named workloads, a sustainable rate, and percentiles and goodput computed by hand."""

from dataclasses import replace
from itertools import pairwise
from statistics import fmean, pstdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mini_vllm import EngineConfig
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm_labs.runs.workloads.percentiles import percentiles
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from mini_vllm_labs.simulation.calibration import Calibration
from mini_vllm_labs.simulation.experiment import DEFAULT_LOAD, Experiment, parse_sweep
from mini_vllm_labs.simulation.served import Served, Slo
from mini_vllm_labs.simulation.simulation import simulate
from mini_vllm_labs.simulation.summary import Spread
from mini_vllm_labs.simulation.workloads import SYSTEM_TOKENS, WORKLOADS, SyntheticPrompt, make_requests, prompt_of

LINEUP = parse_lineup("solution:1-5")
SMALL = Experiment(num_requests=150)
SAMPLES = st.lists(st.tuples(st.floats(0, 10), st.integers(1, 5)), min_size=1, max_size=30)


def test_a_setting_changes_the_right_part_of_the_experiment() -> None:
    assert SMALL.with_setting("gpu", "l4").cost == replace(SMALL, gpu="L4").cost
    assert SMALL.with_setting("rate", "2.5").rate == 2.5
    assert SMALL.with_setting("max_num_batched_tokens", "512").engine.max_num_batched_tokens == 512
    assert SMALL.with_setting("enable_prefix_caching", "off").engine.enable_prefix_caching is False
    assert SMALL.with_setting("gpu_memory_utilization", "0.5").engine.gpu_memory_utilization == 0.5


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("colour", "red", "the setting to sweep must be one of workload, num_requests"),
        ("rate", "fast", "rate must be a number, got 'fast'"),
        ("max_num_seqs", "0", "max_num_seqs must be an integer of at least 1, got 0"),
        ("enable_prefix_caching", "maybe", "enable_prefix_caching must be one of true, on"),
    ],
)
def test_a_bad_setting_is_refused(name: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SMALL.with_setting(name, text)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("gpu", "abacus", "gpu must be one of L4, .*, got 'abacus'"),
        ("model", "x", "model must be one of embedded, .*, got 'x'"),
        ("model", "Llama-3.1-70B", "Llama-3.1-70B does not fit on 1 x H100: its weights take 131.4 GiB"),
        ("workload", "tea", "workload must be one of chat, documents, shared-prefix, mixed, burst, got 'tea'"),
        ("policy", "lifo", "policy must be one of fcfs, priority, sjf, .*, got 'lifo'"),
        ("num_requests", "0", "num_requests must be at least 1, got 0"),
        ("rate", "-1", "rate must be a finite number of requests per second greater than 0, got -1.0"),
        ("num_gpus", "0", "num_gpus must be at least 1, got 0"),
        ("scale", "0", "scale must be finite and greater than 0, got 0.0"),
    ],
)
def test_what_cannot_run_is_refused_before_anything_runs(name: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SMALL.with_setting(name, text).require_legal()


def test_a_sweep_is_a_setting_and_its_values() -> None:
    assert parse_sweep("max-num-seqs=8, 16") == ("max_num_seqs", ["8", "16"])
    for text in ("max_num_seqs", "max_num_seqs=", "=,"):
        with pytest.raises(ValueError, match="a sweep must look like"):
            parse_sweep(text)


@pytest.mark.parametrize("gpu", ["L4", "H100"])
def test_the_default_rate_is_sustainable_and_three_times_that_is_not(gpu: str) -> None:
    """Documents share nothing, so the prefix cache does not help."""
    experiment = Experiment("documents", num_requests=300, gpu=gpu).with_rate()
    assert experiment.rate is not None
    calm = experiment.run(LINEUP)
    assert calm.seconds < 1.3 * calm.requests[-1].arrival_time
    swamped = replace(experiment, rate=3 / DEFAULT_LOAD * experiment.rate).run(LINEUP)
    assert swamped.seconds > 1.8 * swamped.requests[-1].arrival_time


def test_a_larger_gpu_gets_a_higher_rate() -> None:
    rates = [Experiment(gpu=gpu).with_rate().rate or 0 for gpu in ("L4", "A100-80GB", "H100", "B200")]
    assert rates == sorted(rates)
    assert rates[0] < rates[-1] / 10


def test_a_calibration_brings_its_own_memory_and_cost() -> None:
    cost = Experiment(gpu="L4").cost
    calibrated = replace(SMALL, scale=0.05, calibrated=Calibration("tiny", "float32", 700, 301, 99, 0.1, cost))
    engine = calibrated.resolved_engine()
    assert (engine.max_model_len, engine.num_gpu_blocks) == (700, 301)
    assert calibrated.cost is cost
    assert len(calibrated.run(LINEUP).finished_times) == 150


def test_progress_is_reported_up_to_the_last_request() -> None:
    reported: list[int] = []
    SMALL.run(LINEUP, reported.append)
    assert reported == sorted(reported)
    assert reported[-1] == 150
    assert len(reported) > 2


def test_memory_that_is_short_leads_to_preemptions_and_a_cache_to_hits() -> None:
    short = SMALL.with_setting("num_gpu_blocks", "900").with_setting("rate", "60").run(LINEUP)
    assert short.num_preemptions > 0
    assert SMALL.run(LINEUP).hit_rate > 0.5
    assert SMALL.with_setting("enable_prefix_caching", "off").run(LINEUP).hit_rate == 0.0


def test_what_a_preempted_request_finds_of_its_own_blocks_is_no_hit() -> None:
    short = EngineConfig(num_gpu_blocks=40, max_num_seqs=8, max_model_len=256)
    requests = [TimedRequest(0.0, str(number), SyntheticPrompt(64, number), 64) for number in range(8)]
    served = simulate(requests, short, SMALL.cost, LINEUP)
    assert (served.num_preemptions > 0, served.hit_rate) == (True, 0.0)


@given(SAMPLES, st.lists(st.integers(1, 100), max_size=4))
def test_a_value_counts_as_often_as_its_count_says(samples: list[tuple[float, int]], percents: list[int]) -> None:
    values = sorted(value for value, count in samples for _ in range(count))
    expected = [values[-(-percent * len(values) // 100) - 1] for percent in percents]
    assert percentiles(values, percents) == expected
    assert percentiles([value for value, _ in samples], percents, [count for _, count in samples]) == expected
    assert Spread.of(samples).mean == pytest.approx(sum(values) / len(values))


def test_percentiles_without_values_are_0_and_bad_percents_are_refused() -> None:
    assert percentiles([], [50, 99]) == [0.0, 0.0]
    assert Spread.of([]).mean == 0.0
    for percents in ([0], [101], [50, -1]):
        with pytest.raises(ValueError, match="percentages must be greater than 0 and at most 100"):
            percentiles([1.0], percents)


def test_a_good_request_keeps_both_limits() -> None:
    requests = [TimedRequest(float(n), str(n), [1] * 10, 5) for n in range(4)]
    served = Served(requests, first_token_times=[0.5, 2.5, 2.5, 3.5], finished_times=[0.9, 2.9, 4.5, 3.9])
    assert served.times_to_first_token == [0.5, 1.5, 0.5, 0.5]
    assert served.mean_inter_token_latencies == pytest.approx([0.1, 0.1, 0.5, 0.1])
    assert served.e2e_latencies == pytest.approx([0.9, 1.9, 2.5, 0.9])
    slo = Slo(time_to_first_token=1.0, inter_token_latency=0.2)
    assert served.share_good(slo) == 0.5
    assert served.seconds == 4.5
    assert served.goodput(slo) == pytest.approx(2 / 4.5)
    assert served.output_tokens_per_second == pytest.approx(20 / 4.5)


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_same_seed_gives_the_same_requests_in_order(name: str) -> None:
    requests = make_requests(name, 300, rate=5.0, seed=3)
    assert requests == make_requests(name, 300, rate=5.0, seed=3)
    assert requests != make_requests(name, 300, rate=5.0, seed=4)
    assert len(requests) == 300
    assert all(before.arrival_time <= after.arrival_time for before, after in pairwise(requests))
    assert all(r.num_prompt_tokens >= 1 and r.num_output_tokens >= 1 for r in requests)
    assert len(list(requests[7].prompt_token_ids)) == requests[7].num_prompt_tokens


@pytest.mark.parametrize("name", WORKLOADS)
def test_requests_arrive_at_the_rate_asked_for(name: str) -> None:
    requests = make_requests(name, 20_000, rate=50.0)
    assert len(requests) / requests[-1].arrival_time == pytest.approx(50.0, rel=0.1)


def gaps(name: str) -> list[float]:
    return [after.arrival_time - before.arrival_time for before, after in pairwise(make_requests(name, 20_000, 1.0))]


def test_a_burst_varies_four_times_as_much_as_a_poisson_stream() -> None:
    assert pstdev(gaps("mixed")) / fmean(gaps("mixed")) == pytest.approx(1.0, rel=0.05)
    assert pstdev(gaps("burst")) / fmean(gaps("burst")) == pytest.approx(4.0, rel=0.1)


def test_prompts_agree_exactly_as_far_as_their_text_is_shared() -> None:
    requests = make_requests("chat", 400, rate=1.0)
    for request in requests:
        assert prompt_of(request).num_shared_tokens == SYSTEM_TOKENS
    conversations = [[r for r in requests if prompt_of(r).conversation == number] for number in range(400)]
    turns = next(found for found in conversations if len(found) > 1)
    first, second = list(turns[0].prompt_token_ids), list(turns[1].prompt_token_ids)
    assert second[: len(first)] == first
    assert len(second) > len(first) + turns[0].num_output_tokens
    other = next(r for r in requests if prompt_of(r).conversation != prompt_of(turns[0]).conversation)
    stranger = list(other.prompt_token_ids)
    assert stranger[:SYSTEM_TOKENS] == first[:SYSTEM_TOKENS]
    assert not set(stranger[SYSTEM_TOKENS:]) & set(first[SYSTEM_TOKENS:])


def test_some_passages_are_far_more_popular() -> None:
    asked = [prompt_of(request).shared_prefix for request in make_requests("shared-prefix", 10_000, 1.0)]
    assert asked.count(1) > 50 * asked.count(180)
    assert len(set(asked)) > 150
