"""Requests and settings that can never be served are refused with an error that gives the reason and the numbers."""

import re
from typing import Any

import pytest

from mini_vllm import EngineConfig, SamplingParams
from mini_vllm.engine.errors import QueueFullError
from tests.engine.bad_requests import NUM_KINDS, add_bad
from tests.engine.snapshots import snapshot
from tests.engine.workloads import drain, make_engine, small_config

BAD_SETTINGS: list[tuple[str, tuple[Any, ...], str]] = [
    ("max_num_seqs max_num_batched_tokens block_size", (0, -1, 1.5, "8"), "an integer of at least 1"),
    ("kv_cache_memory_bytes max_num_waiting", (0, -1, 1.5, "8"), "an integer of at least 1"),
    ("long_prefill_token_threshold", (-1, 2.5, "8"), "an integer of at least 0"),
    ("max_model_len num_gpu_blocks", (0, 1, -3, 2.5, "8"), "an integer of at least 2"),
    ("gpu_memory_utilization", (0.0, -0.5, 1.01, float("nan"), float("inf")), "greater than 0 and at most 1"),
    ("policy", ("lifo",), "'fcfs' or 'priority'"),
    ("dtype", ("float16",), "'float32' or 'bfloat16'"),
]


def test_an_engine_keeps_nothing_of_requests_that_have_ended() -> None:
    engine = make_engine(small_config())
    engine.add_request("r", [1, 2, 3], SamplingParams(max_tokens=2))
    drain(engine)
    kept = {name: value for name, value in vars(engine).items() if isinstance(value, set | dict | list) and value}
    assert list(kept) == ["observers"], "they belong to the engine, all else to its requests"
    assert not engine.processor.states


@pytest.mark.parametrize("kind", range(NUM_KINDS))
def test_each_kind_of_bad_request_is_refused_with_a_message(kind: int) -> None:
    engine = make_engine(small_config())
    before = snapshot(engine)
    add_bad(engine, kind)
    assert snapshot(engine) == before


def test_a_full_waiting_queue_refuses_requests_with_an_error() -> None:
    engine = make_engine(small_config(max_num_seqs=1, max_num_waiting=2))
    engine.add_request("running", [1, 2], SamplingParams(max_tokens=4))
    engine.step()
    for name in "AB":
        engine.add_request(name, [1, 2], SamplingParams(max_tokens=4))
    before = snapshot(engine)
    with pytest.raises(QueueFullError, match="2 requests are waiting and max_num_waiting is 2"):
        engine.add_request("C", [1, 2], SamplingParams(max_tokens=4))
    assert snapshot(engine) == before
    while len(engine.scheduler.waiting) == 2:
        engine.step()
    engine.add_request("C", [1, 2], SamplingParams(max_tokens=4))
    assert {"A", "B", "C"} <= drain(engine).keys()


def test_two_engines_with_the_same_seed_draw_the_same_seeds_for_their_requests() -> None:
    seeds = []
    for _ in range(2):
        engine = make_engine(small_config(seed=7))
        for name in "AB":
            engine.add_request(name, [1], SamplingParams(temperature=1.0))
        seeds.append([request.seed for request in engine.scheduler.requests.values()])
    assert seeds[0] == seeds[1]
    assert seeds[0][0] != seeds[0][1]


def test_a_request_that_can_never_fit_is_refused_with_the_numbers() -> None:
    engine = make_engine(small_config(num_gpu_blocks=8))
    before = snapshot(engine)
    message = (
        "the request may need 8 blocks (20 prompt tokens, max_tokens 10), but the whole cache has 7 blocks of 4 tokens"
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        engine.add_request("r", [1] * 20, SamplingParams(max_tokens=10))
    assert snapshot(engine) == before


@pytest.mark.parametrize(
    ("setting", "value", "legal"),
    [(name, value, legal) for names, values, legal in BAD_SETTINGS for name in names.split() for value in values],
)
def test_a_bad_setting_is_refused_by_name_value_and_range(setting: str, value: Any, legal: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"{setting} must be {legal}, got {value!r}")):
        EngineConfig(**{setting: value})


def test_without_chunking_the_budget_must_hold_the_longest_prompt() -> None:
    message = "max_num_batched_tokens must be at least max_model_len (40) because enable_chunked_prefill is False"
    with pytest.raises(ValueError, match=re.escape(message)):
        small_config(enable_chunked_prefill=False, max_num_batched_tokens=39)
    small_config(enable_chunked_prefill=False, max_num_batched_tokens=40)


def test_a_budget_below_the_models_own_max_length_is_refused_once_that_is_known() -> None:
    config = EngineConfig(enable_chunked_prefill=False, max_num_batched_tokens=100)
    with pytest.raises(ValueError, match="max_num_batched_tokens must be at least max_model_len"):
        config.resolved(max_model_len=101, num_gpu_blocks=50)
