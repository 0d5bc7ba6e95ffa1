"""The benchmark figures, computed from numbers that can be checked by hand."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch.nn.functional import linear, scaled_dot_product_attention
from transformers import LlamaConfig

from mini_vllm_labs.bench.backend import Arrivals, ServedRound, require_complete
from mini_vllm_labs.bench.case import Case, Quantity, Side
from mini_vllm_labs.bench.llama_cpp_backend import read_weights
from mini_vllm_labs.bench.mini_vllm_backend import OperatorStopwatch, by_kind
from mini_vllm_labs.bench.models import EMBEDDED_MODEL, RANDOM_MODEL, model_size
from mini_vllm_labs.bench.plan import (
    SHARED_PREFIX,
    ThroughputPlan,
    poisson_stream,
    questions_about_one_document,
    room_needed,
    skewed_requests,
)
from mini_vllm_labs.bench.roofline import Explaining, MachineRates, minimum_seconds, where_time_goes
from mini_vllm_labs.bench.served_latencies import figures_of
from mini_vllm_labs.bench.swap import crossing
from mini_vllm_labs.bench.throughput import MEDIANS, versus
from mini_vllm_labs.pictures.terminal.charts import shares
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest

REQUESTS = [TimedRequest(0.0, "0", [1, 2, 3], 3), TimedRequest(2.0, "1", [4], 1)]
SERVED = ServedRound([[7, 8, 9], [5]], [[0.5, 1.0, 3.0], [2.25]], 4.0)


def test_latencies_of_a_round() -> None:
    figures = {key: quantity.value for key, quantity in figures_of(REQUESTS, SERVED).items()}
    assert figures == {
        **{"first token p50": 0.25, "first token p99": 0.5, "between tokens p50": 0.5, "between tokens p99": 2.0},
        **{"per token p50": 0.25, "per token p99": 1.0},
    }


def test_a_backend_with_too_few_tokens_is_refused() -> None:
    with pytest.raises(RuntimeError, match="peer returned 2 tokens for request 0 instead of 3"):
        require_complete(REQUESTS, ServedRound([[7, 8]], [[0.5, 1.0]], 1.0), "peer")


def test_rounds_have_the_same_lengths_and_different_tokens() -> None:
    first, second = (skewed_requests(64, 1000, number) for number in (0, 1))
    lengths = [request.num_prompt_tokens for request in first]
    assert lengths == [request.num_prompt_tokens for request in second]
    assert all(one.prompt_token_ids != other.prompt_token_ids for one, other in zip(first, second, strict=True))
    documents = [length for length in lengths if length > 500]
    assert len(documents) == 8
    assert sum(documents) > sum(lengths) / 2
    assert room_needed(first) % 32 == 0


def test_every_round_asks_about_a_different_document() -> None:
    first, second = (questions_about_one_document(32, 1000, number) for number in (0, 1))
    assert [len(r.prompt_token_ids) for r in first] == [len(r.prompt_token_ids) for r in second]
    for questions in (first, second):
        assert len({tuple(r.prompt_token_ids[:1024]) for r in questions}) == 1
        assert len({tuple(r.prompt_token_ids) for r in questions}) == 32
        assert all(8 <= len(r.prompt_token_ids) - 1024 <= 24 and max(r.prompt_token_ids) < 1000 for r in questions)
    assert first[0].prompt_token_ids[:16] != second[0].prompt_token_ids[:16]


def plan_of(num_requests: int, num_rounds: int, **more: Any) -> ThroughputPlan:
    return ThroughputPlan(EMBEDDED_MODEL, 1000, num_requests, num_rounds, 1, ("mini-vllm",), **more)


def rounds_of(plan: ThroughputPlan) -> dict[str, list[list[TimedRequest]]]:
    return {workload.title: list(workload.rounds) for workload in plan.workloads(lambda: 1.0)}


def test_the_warm_up_is_of_every_length_and_in_no_round() -> None:
    plan = plan_of(64, 3)
    warm_up = plan.warm_up()
    assert [len(request.prompt_token_ids) >= 512 for request in warm_up] == [False] * 4 + [True]
    assert {request.num_output_tokens for request in warm_up} == {8}
    rounds = [requests for found in rounds_of(plan).values() for requests in found]
    served = {tuple(request.prompt_token_ids[:16]) for requests in rounds for request in requests}
    assert served.isdisjoint(tuple(request.prompt_token_ids[:16]) for request in warm_up)
    assert plan.settings().kv_cache_tokens >= max(32 * (1024 + 8 + 16), *map(room_needed, rounds))


def test_no_more_requests_than_the_batch_size_are_under_way() -> None:
    arrivals = Arrivals([TimedRequest(0.0, str(number), [1], 1) for number in range(5)], batch_size=2)
    assert (arrivals.take(), arrivals.take()) == ([0, 1], [])
    arrivals.num_finished = 1
    assert arrivals.take() == [2]
    arrivals.num_finished = 3
    assert (arrivals.take(max_count=1), arrivals.take(), arrivals.all_in) == ([3], [4], True)


def test_batches_fill_whole_seats_with_requests_of_one_length_and_in_no_other_round() -> None:
    plan = plan_of(4, 2, batch_sizes=(1, 16), temperatures=(0.0, 0.8, 1.0))
    found = rounds_of(plan)
    batches = [requests for title, rounds in found.items() if title.startswith("batch") for requests in rounds]
    assert [len(requests) for requests in batches] == [8, 8, 16, 16] * 3
    assert {(len(r.prompt_token_ids), r.max_tokens) for requests in batches for r in requests} == {(64, 64)}
    apart = [
        one for title, rounds in found.items() if title != SHARED_PREFIX for requests in rounds for one in requests
    ]
    assert len({tuple(request.prompt_token_ids[:16]) for request in apart}) == len(apart)
    loads = [(one.load.temperature, one.load.batch_size) for one in plan.workloads(lambda: 1.0)][3:7]
    assert loads == [(0, 1), (0, 16), (0.8, None), (0.8, 1)]
    assert plan.settings().max_num_seqs == 16
    assert plan.settings().kv_cache_tokens >= 16 * 128


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ("all at once", ["tokens/s"]),
        ("batch 4, temperature 0.8", ["tokens/s", "between tokens"]),
        ("stream, temperature 0.8", ["tokens/s", "first token", "between tokens", "per token"]),
    ],
)
def test_ours_is_slower_where_a_figure_falls_short(workload: str, words: list[str]) -> None:
    latencies = [{f"{name} p50": Quantity(seconds, "s") for name in MEDIANS} for seconds in (2.0, 1.0)]
    sides = {"mini-vllm": Side([99.0], latencies[0]), "peer": Side([100.0], latencies[1])}
    found = versus(Case(workload, "tokens/s", "mini-vllm", sides, base_over_side=True), "peer")
    assert [one.words for one in found] == words
    assert [one.times for one in found] == [0.99, 0.5, 0.5, 0.5][: len(words)]
    assert [one.slower for one in found] == [not workload.startswith("stream"), True, True, True][: len(words)]


def test_a_stream_has_the_rate_it_was_given() -> None:
    stream = poisson_stream(skewed_requests(64, 1000) * 20, requests_per_second=4.0)
    assert stream[0].arrival_time == 0
    assert len(stream) / stream[-1].arrival_time == pytest.approx(4.0, rel=0.1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_are_read_as_they_are_without_torch(dtype: torch.dtype, tmp_path: Path) -> None:
    weights = {"wide": torch.randn(3, 5, dtype=dtype), "one": torch.randn(4, dtype=dtype)}
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    read = dict(read_weights(tmp_path / "model.safetensors"))
    assert read.keys() == weights.keys()
    assert all(torch.equal(torch.tensor(read[name]), weight.float()) for name, weight in weights.items())


def test_model_sizes_by_hand() -> None:
    size = model_size(EMBEDDED_MODEL)
    hidden, inner, layers, vocab = 256, 512, 4, size.vocab_size
    assert size.layer_weights == layers * (2 * hidden * hidden + 2 * hidden * 64 + 3 * hidden * inner)
    assert size.head_weights == vocab * hidden
    assert size.kv_numbers_per_token == 2 * layers * 64
    assert size.attention_width == layers * 256


def test_the_roofline_takes_the_slower_of_reading_and_computing() -> None:
    size = model_size(EMBEDDED_MODEL)
    decode = {"num_tokens": 1.0, "num_samples": 1.0, "num_context": 0.0, "num_attended": 0.0}
    weights = size.layer_weights + size.head_weights
    reading, computing = MachineRates(weights * 4.0, 1e30), MachineRates(1e30, 2.0 * weights)
    assert minimum_seconds([decode], size, 4, reading) == pytest.approx(1.0)
    assert minimum_seconds([decode, decode], size, 4, computing) == pytest.approx(2.0)
    prefill = {**decode, "num_tokens": 10.0, "num_samples": 0.0}
    assert minimum_seconds([prefill], size, 4, computing) == pytest.approx(10 * size.layer_weights / weights)


def test_where_time_goes() -> None:
    steps = [
        {"num_requests": 40, "step_seconds": 10.0, "runner_seconds": 9.0, "forward_seconds": 8.0},
        {"num_requests": 1, "step_seconds": 5.0, "runner_seconds": 5.0, "forward_seconds": 1.0},
    ]
    parts = {"forward_pass": 8.0, "batch_and_sampling": 1.0, "scheduling_and_outputs": 1.0, "all": 10.0}
    assert where_time_goes(steps, 32) == {"num_steps": 1, **parts}
    full = [{**step, "num_tokens": 1, "num_samples": 1, "num_context": 1, "num_attended": 1} for step in steps]
    explaining = Explaining(EMBEDDED_MODEL, "float32", 1)
    explaining.__dict__["rates"] = MachineRates(1e9, 1e9)
    [note] = explaining("stream", ServedRound([], [], 15.0, steps=full))
    assert "In steps with 32 or more requests, 20.0% of the time is spent outside the forward pass." in note
    assert explaining.found["stream"]["overhead"] == pytest.approx(0.2)


def test_the_random_model_has_about_150_million_parameters(tmp_path: Path) -> None:
    LlamaConfig(**RANDOM_MODEL).save_pretrained(tmp_path)
    save_file({"weight": torch.zeros(1)}, tmp_path / "model.safetensors")
    assert 140e6 < model_size(tmp_path).num_parameters < 160e6


def test_a_stopwatch_counts_every_operator_by_what_it_does() -> None:
    numbers = torch.ones(2, 3)
    with torch.inference_mode(), OperatorStopwatch() as stopwatch:
        linear(numbers, numbers)
        scaled_dot_product_attention(numbers, numbers, numbers)
        numbers.index_select(0, torch.tensor([1]))
        numbers[torch.tensor([1])] = numbers[torch.tensor([0])]
    assert all(by_kind(stopwatch.seconds.items(), 1.0).values())
    operators = {"aten.addmm.default": 4.0, "aten.index_copy_.default": 0.75, "aten.silu.default": 0.125}
    kinds = by_kind([*operators.items(), ("aten.scaled_dot_product_attention.default", 2.0)], 7.0)
    assert shares(kinds) == "57% matrix products, 29% attention, 11% copies of K and V, 4% everything else"


def test_a_crossing_lies_between_two_lengths() -> None:
    seconds = {64: (1.0, 2.0), 256: (1.0, 2.0), 1024: (3.0, 2.0)}
    assert crossing(seconds) == "at 1,024 tokens swapping is faster, at 256 not yet"
    assert crossing({64: (1.0, 2.0)}) == "computing again is always faster"
