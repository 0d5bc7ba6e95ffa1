"""Chooses the number of KV cache blocks according to the free memory.

On a GPU, this module first runs the largest step to measure its memory use. (vLLM: `profile_run` of `GPUModelRunner`
and `determine_available_memory` of its worker.)
"""

import psutil
import torch

from mini_vllm.config import EngineConfig
from mini_vllm.core.cdiv import cdiv
from mini_vllm.runner.llama import paged_model
from mini_vllm.runner.loading import LoadedModel
from mini_vllm.runner.steps import FlatBatch, RunnerSteps, dummy_batch

CPU_KV_CACHE_BYTES = 4 * 2**30


def memory_of(device: torch.device) -> tuple[int, int]:
    """Return the total and free bytes of the GPU's memory, or of main memory for the CPU."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        return total, free
    memory = psutil.virtual_memory()
    return memory.total, memory.available


def size_kv_cache(
    config: EngineConfig, loaded: LoadedModel, steps: RunnerSteps, draft_model: LoadedModel | None = None
) -> int:
    """Return how many blocks fit in memory, up to the most that could ever be used, including the null block.

    On a GPU, the memory that the largest step needs is kept free, in addition to the memory for the weights. On a CPU
    the cache is also limited to 4 GiB, because other programs use the same memory. `kv_cache_memory_bytes` replaces
    these limits. A `draft_model` also stores its K and V in every block.
    """
    bytes_per_number = torch.empty((), dtype=loaded.dtype).element_size()
    block_bytes = sum(
        steps.kv_block_bytes(
            model.groups.num_tensors, config.block_size, model.num_kv_heads, model.head_dim, bytes_per_number
        )
        for model in (loaded, draft_model)
        if model is not None
    )
    longest = config.max_model_len or loaded.max_model_len
    num_useful = config.max_num_seqs * cdiv(longest, config.block_size) * len(loaded.groups.windows) + 1
    if config.kv_cache_memory_bytes is not None:
        return min(num_useful, _blocks_of(config.kv_cache_memory_bytes, block_bytes))
    step_bytes = 0 if loaded.device.type == "cpu" else peak_bytes_of_a_step(config, loaded, steps)
    total, free = memory_of(loaded.device)
    free -= step_bytes
    num_fitting = steps.num_blocks_that_fit(total, free, config.gpu_memory_utilization, block_bytes)
    if loaded.device.type == "cpu":
        num_fitting = min(num_fitting, max(2, CPU_KV_CACHE_BYTES // block_bytes))
    return min(num_useful, num_fitting)


def _blocks_of(num_bytes: int, block_bytes: int) -> int:
    if num_bytes < 2 * block_bytes:
        raise ValueError(
            f"kv_cache_memory_bytes must be enough for at least 2 blocks of {block_bytes:,} bytes, got {num_bytes:,}"
        )
    return num_bytes // block_bytes


def largest_batch(num_tokens: int, num_requests: int, longest: int, block_size: int, device: torch.device) -> FlatBatch:
    """Return a step of at most `num_tokens` prompt tokens, divided evenly among requests with at least one token each.

    No request has more than `longest` tokens, because a model may have no positions beyond that.
    """
    num_tokens = min(num_tokens, num_requests * longest)
    num_requests = min(num_requests, num_tokens)
    shorter, num_longer = divmod(num_tokens, num_requests)
    query_lens = [shorter + 1] * num_longer + [shorter] * (num_requests - num_longer)
    return dummy_batch(query_lens, cdiv(max(query_lens), block_size), block_size, device)


def peak_bytes_of_a_step(config: EngineConfig, loaded: LoadedModel, steps: RunnerSteps) -> int:
    """Return how many bytes the config's largest step needs at its peak on a GPU, excluding weights and KV cache."""
    device = loaded.device
    model = paged_model(loaded, steps, num_blocks=1, block_size=config.block_size)
    longest = config.max_model_len or loaded.max_model_len
    batch = largest_batch(config.max_num_batched_tokens, config.max_num_seqs, longest, config.block_size, device)
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    model.forward(batch)
    torch.cuda.synchronize(device)
    peak = torch.cuda.max_memory_allocated(device) - before
    torch.cuda.empty_cache()
    return peak
