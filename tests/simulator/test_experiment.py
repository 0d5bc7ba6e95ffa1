"""Experiments: settings as typed by a user, a sustainable rate, and the whole experiment in one call."""

from dataclasses import replace

import pytest

from course.simulator.calibration import Calibration
from course.simulator.experiment import DEFAULT_LOAD, Experiment, parse_sweep
from mini_vllm.assembly.lineup import parse_lineup

LINEUP = parse_lineup("solution:1-5")
SMALL = Experiment(num_requests=150)


def test_a_setting_changes_the_right_part_of_the_experiment() -> None:
    assert SMALL.with_setting("gpu", "l4").cost == replace(SMALL, gpu="L4").cost
    assert SMALL.with_setting("rate", "2.5").rate == 2.5
    assert SMALL.with_setting("max_num_batched_tokens", "512").engine.max_num_batched_tokens == 512
    assert SMALL.with_setting("enable_prefix_caching", "off").engine.enable_prefix_caching is False
    assert SMALL.with_setting("gpu_memory_utilization", "0.5").engine.gpu_memory_utilization == 0.5


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("colour", "red", "a setting to sweep must be one of workload, num_requests"),
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
        ("model", "Llama-3.1-70B", "Llama-3.1-70B does not fit 1 x H100: its weights take 131.4 GiB"),
        ("workload", "tea", "workload must be one of chat, documents, shared-prefix, mixed, burst, got 'tea'"),
        ("policy", "lifo", "policy must be one of fcfs, priority, sjf, .*, got 'lifo'"),
        ("num_requests", "0", "num_requests must be at least 1, got 0"),
        ("rate", "-1", "rate must be a finite number of requests per second over 0, got -1.0"),
        ("num_gpus", "0", "num_gpus must be at least 1, got 0"),
        ("scale", "0", "scale must be a finite number over 0, got 0.0"),
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
