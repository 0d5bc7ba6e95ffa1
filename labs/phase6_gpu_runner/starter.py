"""Phase 6: from a plan to tokens, through tensors.

Each function is small and is called by `mini_vllm/runner/paged_model_runner.py` or `mini_vllm/runner/attention.py`.
The letters in the shapes: T tokens of R requests in this step, S of which sample.
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
    # Request by request: tokens num_computed_tokens up to num_computed_tokens + num_scheduled_tokens.
    raise NotImplementedError("Phase 6, task 1: flatten_tokens")


def compute_slot_mapping(batch: Sequence[ScheduledRequest], block_size: int) -> list[int]:
    """Return for each token of the row the slot that its K and V go to [T].

    Slot `b * block_size + i` is place i of block b.
    """
    # For each position: which block of the table, which place in it.
    raise NotImplementedError("Phase 6, task 2: compute_slot_mapping")


def pad_block_tables(batch: Sequence[ScheduledRequest], block_size: int) -> list[list[int]]:
    """Return the block tables as a rectangle [R, longest], each cut to what its request has in the cache.

    Shorter tables are filled up with block 0, the null block.
    """
    # A table may already be longer than this step needs. Cut first, then pad.
    raise NotImplementedError("Phase 6, task 2: pad_block_tables")


def select_logits_rows(batch: Sequence[ScheduledRequest]) -> list[int]:
    """Return the row index of the last token of each request that samples [S]."""
    # Where does each request's last token of this step stand in the row?
    raise NotImplementedError("Phase 6, task 1: select_logits_rows")


def write_kv(key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor) -> None:
    """Store the step's K and V [T, kv_heads, head_dim] in their slots, in place.

    The caches are [blocks, block_size, kv_heads, head_dim]; `slot_mapping` is [T].
    """
    # Seen flat, a cache is [blocks * block_size, kv_heads, head_dim] (`flatten(0, 1)` is a view), and the slot
    # mapping is an index into it (`index_copy_`).
    raise NotImplementedError("Phase 6, task 3: write_kv")


def paged_attention(query: Tensor, key_cache: Tensor, value_cache: Tensor, batch: FlatBatch, scale: float) -> Tensor:
    """Let each token attend to its own request's tokens up to itself; return [T, heads, head_dim].

    query [T, heads, head_dim]; caches [blocks, block_size, kv_heads, head_dim], already holding the
    step's own K and V. Several query heads share one K/V head: head h reads `h // (heads // kv_heads)`.
    """
    # 1. Write it for one request at a time first: gather its blocks (`key_cache[table]`), flatten, cut to
    #    seq_len, `scaled_dot_product_attention` with a mask, `enable_gqa=True`.
    # 2. The mask of a chunk: the last query sees all seq_len tokens, the one before one less, and so on.
    # 3. Then many requests at once, for each of `batch.groups`: gather [N, S, kv_heads, head_dim] (`index_select` of
    #    the flattened tables is faster than `key_cache[tables]`). `group.mask` is the mask, made once for all layers.
    #    With one token each, let the heads that share a K/V head stand where the tokens would:
    #    [N, kv_heads, heads // kv_heads, head_dim].
    # The tensors are views in an order of their own: `reshape` works where `view` complains.
    raise NotImplementedError("Phase 6, task 4: paged_attention")


def sample(logits: Tensor, params: Sequence[SamplingParams], draws: Sequence[float]) -> list[int]:
    """Choose one token per row of `logits` [S, vocab]. `draws` are numbers from 0 to 1, one per row.

    Temperature 0 takes the likeliest token. Otherwise: divide by the temperature, keep the `top_k`
    likeliest, of those keep the fewest whose probabilities reach `top_p`, and walk through what is kept
    from the likeliest on until the probabilities add up to more than the draw. After each of the two
    cuts what is kept is scaled to add up to 1.
    """
    # Follow the docstring in its order. float64 for the probabilities keeps long sums honest. With a draw of
    # 0.0 the likeliest token must come out.
    raise NotImplementedError("Phase 6, task 5: sample")


def kv_block_bytes(num_layers: int, block_size: int, num_kv_heads: int, head_dim: int, bytes_per_number: int) -> int:
    """Return the bytes of one block: K and V of `block_size` tokens in all layers."""
    raise NotImplementedError("Phase 6, task 6: kv_block_bytes")


def num_blocks_that_fit(total_bytes: int, free_bytes: int, gpu_memory_utilization: float, block_bytes: int) -> int:
    """Return how many blocks fit: the engine may use a share of all memory, less what is taken already.

    Raises `ValueError` that names the numbers if not even two blocks fit (one of them is the null block).
    """
    # Taken already: total - free. The share that the engine may use is a share of the total.
    raise NotImplementedError("Phase 6, task 6: num_blocks_that_fit")
