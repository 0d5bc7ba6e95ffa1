"""Phase 6: the step's batch as tensors, attention over the paged KV cache, and sampling.

The functions are called by `mini_vllm/runner/paged_model_runner.py` and `mini_vllm/runner/attention.py`. Letters in
the shapes: T tokens of R requests in this step, S requests that need a token. Lists hold plain integers (Python's or
numpy's). Create tensors with `device=` set to the arguments' device. Leave the arguments unchanged, except the caches
in `write_kv`. A batch has at least one request, but S may be 0.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from mini_vllm.core.step import ScheduledRequest
from mini_vllm.runner.steps import FlatBatch
from mini_vllm.sampling_params import SamplingParams


def flatten_tokens(batch: Sequence[ScheduledRequest]) -> tuple[list[int], list[int], list[int]]:
    """Return the step's tokens in one row: (input_ids [T], positions [T], query_start_loc [R + 1]).

    A position counts from the request's first token, not from the row's. Request i has the tokens
    `query_start_loc[i]` to `query_start_loc[i + 1] - 1` of the row.
    """
    raise NotImplementedError("Phase 6, task 1: flatten_tokens")


def compute_slot_mapping(batch: Sequence[ScheduledRequest], block_size: int) -> list[int]:
    """Return the slot for each token's K and V [T]. Slot `b * block_size + i` is position i of block b."""
    raise NotImplementedError("Phase 6, task 2: compute_slot_mapping")


def pad_block_tables(batch: Sequence[ScheduledRequest], block_size: int) -> list[list[int]]:
    """Return the block tables [R, longest], each cut to the blocks that contain tokens after this step.

    Shorter tables are padded with block 0, the null block.
    """
    raise NotImplementedError("Phase 6, task 2: pad_block_tables")


def select_logits_rows(batch: Sequence[ScheduledRequest]) -> list[int]:
    """Return, for each request with `needs_token`, the row of its last token [S]."""
    raise NotImplementedError("Phase 6, task 1: select_logits_rows")


def write_kv(key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor) -> None:
    """Store the step's K and V [T, kv_heads, head_dim] in their slots, in place.

    The caches are [blocks, block_size, kv_heads, head_dim]; `slot_mapping` is [T].
    """
    raise NotImplementedError("Phase 6, task 3: write_kv")


def paged_attention(query: Tensor, key_cache: Tensor, value_cache: Tensor, batch: FlatBatch, scale: float) -> Tensor:
    """Attend from each token to its request's tokens up to and including itself; return [T, heads, head_dim].

    query [T, heads, head_dim]; caches [blocks, block_size, kv_heads, head_dim], already holding the
    step's own K and V. Several query heads share one K/V head: head h reads `h // (heads // kv_heads)`.
    Scores are multiplied by `scale`. The result has the query's dtype and device.
    """
    raise NotImplementedError("Phase 6, task 4: paged_attention")


def sample(logits: Tensor, params: Sequence[SamplingParams], draws: Sequence[float]) -> list[int]:
    """Return one token id, a Python integer, for each row of `logits` [S, vocab].

    `draws` has one number per row, 0 <= draw < 1. Temperature 0 selects the most likely token. Otherwise divide the
    logits by the temperature, keep the `top_k` likeliest tokens, and of those keep the fewest whose probabilities
    together reach `top_p`. After each of the two cuts the kept probabilities are scaled to add up to 1. Then walk
    through the kept tokens until the probabilities add up to more than the draw. In a row with a cut (`top_k` over 0 or
    `top_p` under 1), walk from the likeliest token downward; otherwise walk by token id, which needs no sorting.
    Compute in float64, whatever the dtype of the logits. Tokens with equal logits may come in any order.
    """
    raise NotImplementedError("Phase 6, task 5: sample")


def kv_block_bytes(num_layers: int, block_size: int, num_kv_heads: int, head_dim: int, bytes_per_number: int) -> int:
    """Return the size of one block in bytes: K and V of `block_size` tokens in all layers."""
    raise NotImplementedError("Phase 6, task 6: kv_block_bytes")


def num_blocks_that_fit(total_bytes: int, free_bytes: int, gpu_memory_utilization: float, block_bytes: int) -> int:
    """Return how many blocks fit in the engine's share of all memory, minus the memory in use.

    Raises a `ValueError` that states the numbers if fewer than two blocks fit (one of them is the null block).
    """
    raise NotImplementedError("Phase 6, task 6: num_blocks_that_fit")
