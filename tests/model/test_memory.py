"""The KV cache is as large as the memory allows and no larger than the requests can use."""

import pytest

from mini_vllm.assembly.parts import runner_steps_for
from mini_vllm.config import EngineConfig
from mini_vllm.runner import memory
from mini_vllm.runner.memory import size_kv_cache
from tests.model.shapes import random_llama

# 2 (K and V) x 3 layers x 16 tokens x 2 heads x 8 x 4 bytes
BLOCK_BYTES = 6144


def blocks(config: EngineConfig) -> int:
    return size_kv_cache(config, random_llama(), runner_steps_for("solution"))


def test_no_more_blocks_than_the_requests_can_use() -> None:
    assert blocks(EngineConfig(max_num_seqs=4)) == 4 * 512 // 16 + 1
    assert blocks(EngineConfig(max_num_seqs=4, max_model_len=100)) == 4 * 7 + 1


def test_the_byte_limit_bounds_the_number_of_blocks() -> None:
    assert blocks(EngineConfig(kv_cache_memory_bytes=10 * BLOCK_BYTES + 1)) == 10
    with pytest.raises(ValueError, match=r"kv_cache_memory_bytes .* 2 blocks of 6,144 bytes, got 7,000"):
        blocks(EngineConfig(kv_cache_memory_bytes=7000))


def test_memory_in_use_is_not_allocated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "memory_of", lambda device: (100 * BLOCK_BYTES, 60 * BLOCK_BYTES))
    assert blocks(EngineConfig(gpu_memory_utilization=0.9)) == 50
    with pytest.raises(ValueError, match="no room for the KV cache"):
        blocks(EngineConfig(gpu_memory_utilization=0.4))
