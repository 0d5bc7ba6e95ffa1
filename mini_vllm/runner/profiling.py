"""Measure the GPU memory of the largest step by running it once, before the KV cache is allocated.

vLLM: `profile_run` of `GPUModelRunner` and `determine_available_memory` of its worker.
"""

import torch

from mini_vllm.config import EngineConfig
from mini_vllm.core.cdiv import cdiv
from mini_vllm.runner.loading import LoadedModel
from mini_vllm.runner.paged_model import PagedModel
from mini_vllm.runner.steps import FlatBatch, RunnerSteps


def largest_batch(num_tokens: int, num_requests: int, block_size: int, device: torch.device) -> FlatBatch:
    """Return a step of `num_tokens` prompt tokens, spread evenly over requests that all need a token.

    All their slots are in block 0: the results are meaningless, but take as much memory as any others.
    """
    num_requests = min(num_requests, num_tokens)
    shorter, num_longer = divmod(num_tokens, num_requests)
    query_lens = [shorter + 1] * num_longer + [shorter] * (num_requests - num_longer)
    lengths = torch.tensor(query_lens, device=device)
    starts = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
    positions = torch.cat([torch.arange(length, device=device) for length in query_lens])
    longest_table = cdiv(max(query_lens), block_size)
    return FlatBatch(
        input_ids=torch.zeros_like(positions),
        positions=positions,
        slot_mapping=positions % block_size,
        query_start_loc=starts,
        seq_lens=lengths,
        block_tables=torch.zeros(num_requests, longest_table, dtype=torch.int64, device=device),
        logits_indices=starts[1:] - 1,
        query_lens=query_lens,
        seq_lens_cpu=query_lens,
        block_size=block_size,
    )


def peak_bytes_of_a_step(config: EngineConfig, loaded: LoadedModel, steps: RunnerSteps) -> int:
    """Return the peak bytes of the largest step of `config` on a GPU, besides weights and KV cache."""
    device = loaded.device
    model = PagedModel(loaded, steps.write_kv, steps.paged_attention, num_blocks=1, block_size=config.block_size)
    batch = largest_batch(config.max_num_batched_tokens, config.max_num_seqs, config.block_size, device)
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    model.forward(batch)
    torch.cuda.synchronize(device)
    peak = torch.cuda.max_memory_allocated(device) - before
    torch.cuda.empty_cache()
    return peak
