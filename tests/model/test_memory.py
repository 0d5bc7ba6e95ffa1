"""The KV cache is as large as the memory allows, but no larger than the requests can use."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from mini_vllm.assembly.parts import runner_steps_for
from mini_vllm.config import EngineConfig
from mini_vllm.runner import memory
from mini_vllm.runner.llama import paged_model
from mini_vllm.runner.loading import LoadedModel, load_model
from mini_vllm.runner.memory import largest_batch, size_kv_cache
from mini_vllm.runner.paged_model import PagedModel
from mini_vllm_labs.simulation.model_shapes import find_model_shape
from mini_vllm_labs.simulation.roofline import BYTES_PER_NUMBER, activation_bytes
from tests.model.shapes import VOCAB_SIZE, random_llama

STEPS = runner_steps_for("solution")
# 2 (K and V) x 3 layers x 16 tokens x 2 heads x 8 x 4 bytes
BLOCK_BYTES = 6144


def blocks(loaded: LoadedModel | None = None, **settings: float) -> int:
    return size_kv_cache(EngineConfig(**settings), loaded or random_llama(), STEPS)  # type: ignore[arg-type]


def test_no_more_blocks_than_the_requests_can_use() -> None:
    assert blocks(max_num_seqs=4) == 4 * 512 // 16 + 1
    assert blocks(max_num_seqs=4, max_model_len=100) == 4 * 7 + 1


def test_the_byte_limit_bounds_the_number_of_blocks() -> None:
    assert blocks(kv_cache_memory_bytes=10 * BLOCK_BYTES + 1) == 10
    with pytest.raises(ValueError, match=r"kv_cache_memory_bytes .* 2 blocks of 6,144 bytes, got 7,000"):
        blocks(kv_cache_memory_bytes=7000)


def test_memory_in_use_is_not_allocated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU, the largest step also needs memory (here, the size of 15 blocks)."""
    on_a_gpu = replace(random_llama(), model=SimpleNamespace(device="cuda", dtype=torch.float32))
    monkeypatch.setattr(memory, "memory_of", lambda device: (100 * BLOCK_BYTES, 60 * BLOCK_BYTES))
    monkeypatch.setattr(memory, "peak_bytes_of_a_step", lambda *arguments: 15 * BLOCK_BYTES)
    assert blocks(gpu_memory_utilization=0.9) == 50
    assert blocks(on_a_gpu, gpu_memory_utilization=0.9) == 35
    for loaded, share in ((None, 0.4), (on_a_gpu, 0.5)):
        with pytest.raises(ValueError, match="no room for the KV cache"):
            blocks(loaded, gpu_memory_utilization=share)


@pytest.mark.parametrize(
    ("num_tokens", "num_requests", "lengths"), [(11, 3, [4, 4, 3]), (2, 64, [1, 1]), (50, 2, [9, 9])]
)
def test_the_largest_step_has_all_tokens_and_all_requests(
    num_tokens: int, num_requests: int, lengths: list[int]
) -> None:
    batch = largest_batch(num_tokens, num_requests, 9, 4, torch.device("cpu"))
    assert batch.query_lens == lengths
    assert len(batch.input_ids) == len(batch.positions) == len(batch.slot_mapping) == sum(lengths)
    assert batch.query_start_loc.tolist() == [sum(lengths[:n]) for n in range(len(lengths) + 1)]
    assert int(batch.slot_mapping.max()) < 4, "a cache of one block is enough"


def test_the_largest_step_runs_on_a_cache_of_one_block() -> None:
    model = PagedModel(random_llama(), STEPS.write_kv, STEPS.paged_attention, num_blocks=1, block_size=4)
    logits = model.forward(largest_batch(50, 7, 512, 4, torch.device("cpu")))
    assert logits.shape == (7, VOCAB_SIZE)
    assert logits.isfinite().all()


@pytest.mark.parametrize("num_tokens", [512, 2048])
def test_a_step_holds_what_the_calculator_says(num_tokens: int) -> None:
    """The memory of the embedded model's forward pass, to the byte, plus the cosine and sine of the positions."""
    loaded = load_model()[0]
    model = paged_model(loaded, STEPS, num_blocks=1, block_size=16)
    batch = largest_batch(num_tokens, 64, 2048, 16, torch.device("cpu"))
    model.forward(batch)
    now = peak = 0
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        model.forward(batch)
    for event in profiler.profiler.kineto_results.events():
        if event.name() == "[memory]":
            now += event.nbytes()
            peak = max(peak, now)
    expected = activation_bytes(find_model_shape("embedded"), num_tokens) // BYTES_PER_NUMBER
    assert peak == (expected + num_tokens * 2 * loaded.head_dim) * loaded.dtype.itemsize
