"""The tables match the published figures, and the figures derived from them are correct to the byte."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

import mini_vllm
from mini_vllm_labs.simulation.cost_model import CostModel, StepCounts, pairs, roofline
from mini_vllm_labs.simulation.gpus import GPUS, find_gpu
from mini_vllm_labs.simulation.model_shapes import MODEL_SHAPES, ModelShape, find_model_shape, shape_of_config
from mini_vllm_labs.simulation.roofline import (
    WORKSPACE_BYTES,
    activation_bytes,
    flops_per_token,
    kv_bytes_per_block,
    kv_bytes_per_token,
    max_concurrency,
    num_kv_blocks,
    saturation_batch,
    weight_bytes,
)

PUBLISHED_PARAMETERS = {
    "embedded": 2_624_000,
    "Qwen2.5-0.5B": 494_032_768,
    "Qwen2.5-7B": 7_615_616_512,
    "Mistral-7B-v0.3": 7_248_023_552,
    "Llama-3.1-8B": 8_030_261_248,
    "Qwen3-8B": 8_190_735_360,
    "Qwen3-32B": 32_762_123_264,
    "Llama-3.1-70B": 70_553_706_496,
}
LLAMA_8B, H100 = find_model_shape("Llama-3.1-8B"), find_gpu("H100")


@pytest.mark.parametrize("shape", MODEL_SHAPES, ids=lambda shape: shape.name)
def test_parameters_are_those_of_the_model_card(shape: ModelShape) -> None:
    assert shape.num_parameters == PUBLISHED_PARAMETERS[shape.name]


def test_the_embedded_model_is_the_one_that_ships() -> None:
    config = json.loads((Path(mini_vllm.__file__).parent / "embedded_model" / "config.json").read_text())
    assert shape_of_config("embedded", SimpleNamespace(**config)) == find_model_shape("embedded")


def test_llama_8b_takes_128_kib_a_token_and_2_mib_a_block() -> None:
    assert kv_bytes_per_token(LLAMA_8B) == 128 * 2**10
    assert kv_bytes_per_block(LLAMA_8B, 16) == 2 * 2**20
    assert kv_bytes_per_block(LLAMA_8B, 32, bytes_per_number=1) == 2 * 2**20
    assert weight_bytes(LLAMA_8B) == 16_060_522_496


def test_blocks_are_what_is_left_of_the_memory() -> None:
    num_blocks = num_kv_blocks(H100, LLAMA_8B)
    left = 0.9 * 80 * 2**30 - 16_060_522_496 - 2 * 2**30
    assert num_blocks * 2 * 2**20 <= left < (num_blocks + 1) * 2 * 2**20
    assert num_kv_blocks(H100, LLAMA_8B, num_gpus=2) > 2 * num_blocks
    assert num_kv_blocks(H100, LLAMA_8B, gpu_memory_utilization=0.5) < num_blocks
    for_8192 = num_blocks - num_kv_blocks(H100, LLAMA_8B, max_num_batched_tokens=8192)
    assert for_8192 == pytest.approx(3 * 200 / 2, abs=1), "three times the 200 MiB of 2,048 tokens, in blocks of 2 MiB"
    assert num_kv_blocks(H100, find_model_shape("Llama-3.1-70B"), num_gpus=4) > 1000


def test_activations_are_two_hidden_states_and_three_of_the_mlp_and_the_first_two_are_on_every_gpu() -> None:
    assert activation_bytes(LLAMA_8B, 1) == 2 * (2 * 4096 + 3 * 14_336)
    assert activation_bytes(LLAMA_8B, 2048, num_gpus=4) == 2048 * 2 * (4 * 2 * 4096 + 3 * 14_336)
    assert activation_bytes(LLAMA_8B, 2048) + WORKSPACE_BYTES == 2 * 2**30


def test_concurrency_counts_whole_blocks_and_not_the_null_block() -> None:
    assert max_concurrency(num_blocks=101, context_len=160) == 10
    assert max_concurrency(num_blocks=100, context_len=160) == 9
    assert max_concurrency(num_blocks=101, context_len=161) == 9


def test_saturation_is_peak_over_bandwidth_and_half_of_it_for_one_byte() -> None:
    """Fact 16 of the design: the result is about 295 tokens on an H100, not bandwidth divided by intensity."""
    assert saturation_batch(H100) == pytest.approx(989e12 / 3.35e12)
    assert saturation_batch(H100, bytes_per_number=1) == pytest.approx(saturation_batch(H100) / 2)
    assert 100 < min(map(saturation_batch, GPUS)) < max(map(saturation_batch, GPUS)) < 500


def test_a_token_costs_two_operations_per_parameter_and_its_attention() -> None:
    """The embedding is a lookup; all other parameters except the norms' are multiplied."""
    multiplied = LLAMA_8B.num_parameters_read
    assert flops_per_token(LLAMA_8B, 0) == pytest.approx(2 * multiplied, rel=1e-4)
    per_pair = (flops_per_token(LLAMA_8B, 1000) - flops_per_token(LLAMA_8B, 0)) / 1000
    assert per_pair == 32 * 32 * (2 * 128 + 2 * 128)


def decode_speed(batch: int, context_len: int, num_gpus: int = 1) -> float:
    """Return the maximum output tokens per second for requests with `context_len` tokens each."""
    counts = StepCounts(batch, batch, batch * context_len, batch * context_len, batch)
    return batch / roofline(H100, LLAMA_8B, num_gpus).step_seconds(*counts)


def prefill_speed(length: int) -> float:
    """Return the maximum prompt tokens per second for a prompt computed alone in one step."""
    return length / roofline(H100, LLAMA_8B).step_seconds(1, length, length, pairs(0, length), 1)


def test_a_small_batch_is_bound_by_bytes_and_a_large_one_by_operations() -> None:
    read = 2 * LLAMA_8B.num_parameters_read + 100 * kv_bytes_per_token(LLAMA_8B)
    assert decode_speed(1, 100) == pytest.approx(3.35e12 / read)
    assert decode_speed(8, 100) > 7.5 * decode_speed(1, 100)
    assert decode_speed(4000, 10) == pytest.approx(989e12 / flops_per_token(LLAMA_8B, 10))


def test_a_long_prompt_is_bound_by_operations_and_slower_per_token_than_a_short_one() -> None:
    assert prefill_speed(30_000) < prefill_speed(1_000) < 989e12 / (2 * LLAMA_8B.num_matrix_parameters)
    assert prefill_speed(1) == pytest.approx(decode_speed(1, 1))


def test_two_gpus_are_twice_one_except_for_their_communication() -> None:
    assert decode_speed(8, 100, num_gpus=2) == pytest.approx(2 * decode_speed(8, 100))


def test_pairs_are_what_each_new_token_sees() -> None:
    assert pairs(0, 4) == 1 + 2 + 3 + 4
    assert pairs(10, 3) == 11 + 12 + 13


def test_a_step_takes_the_longer_of_the_two_or_both_in_turn() -> None:
    cost = CostModel(100, 10, 50, 7, 3, bandwidth=10, flop_rate=20, seconds_per_step=1, seconds_per_request=0.5)
    memory, compute = (100 + 10 * 6) / 10, (50 * 4 + 7 * 2 + 3 * 9) / 20
    assert memory > compute
    assert cost.step_seconds(2, 4, 6, 9, 2) == pytest.approx(1 + 2 * 0.5 + memory)
    in_turn = CostModel(100, 10, 50, 7, 3, 10, 20, 1, 0.5, overlaps=False)
    assert in_turn.step_seconds(2, 4, 6, 9, 2) == pytest.approx(1 + 2 * 0.5 + memory + compute)
