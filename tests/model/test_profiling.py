"""The dummy step of the profiling run, and what its peak does to the number of blocks. Without a GPU."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from mini_vllm.assembly.parts import runner_steps_for
from mini_vllm.config import EngineConfig
from mini_vllm.runner import memory
from mini_vllm.runner.memory import size_kv_cache
from mini_vllm.runner.paged_model import PagedModel
from mini_vllm.runner.profiling import largest_batch
from tests.model.shapes import VOCAB_SIZE, random_llama

STEPS = runner_steps_for("solution")
BLOCK_BYTES = 6144  # as in test_memory.py


@pytest.mark.parametrize(("num_tokens", "num_requests", "lengths"), [(11, 3, [4, 4, 3]), (2, 64, [1, 1])])
def test_the_largest_step_has_all_tokens_and_all_requests(
    num_tokens: int, num_requests: int, lengths: list[int]
) -> None:
    batch = largest_batch(num_tokens, num_requests, 4, torch.device("cpu"))
    assert batch.query_lens == lengths
    assert len(batch.input_ids) == len(batch.positions) == len(batch.slot_mapping) == num_tokens
    assert batch.query_start_loc.tolist() == [sum(lengths[:n]) for n in range(len(lengths) + 1)]
    assert int(batch.slot_mapping.max()) < 4, "a cache of one block is enough"


def test_the_largest_step_runs_on_a_cache_of_one_block() -> None:
    model = PagedModel(random_llama(), STEPS.write_kv, STEPS.paged_attention, num_blocks=1, block_size=4)
    logits = model.forward(largest_batch(50, 7, 4, torch.device("cpu")))
    assert logits.shape == (7, VOCAB_SIZE)
    assert logits.isfinite().all()


def test_on_a_gpu_the_blocks_leave_room_for_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    model = SimpleNamespace(device="cuda", dtype=torch.float32)
    loaded = replace(random_llama(), model=model)
    monkeypatch.setattr(memory, "memory_of", lambda device: (100 * BLOCK_BYTES, 60 * BLOCK_BYTES))
    monkeypatch.setattr(memory, "peak_bytes_of_a_step", lambda *arguments: 15 * BLOCK_BYTES)
    assert size_kv_cache(EngineConfig(gpu_memory_utilization=0.9), loaded, STEPS) == 35
    with pytest.raises(ValueError, match="no room for the KV cache"):
        size_kv_cache(EngineConfig(gpu_memory_utilization=0.5), loaded, STEPS)
