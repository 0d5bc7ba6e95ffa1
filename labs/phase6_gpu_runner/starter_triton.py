"""Phase 6, task 8 (optional): the cache's two inner loops as Triton kernels.

They run on a GPU; without one, the tests use Triton's interpreter. On a GPU the runner uses the kernels
as soon as all four functions are written. `mini-vllm hint 6.8` has a hint in steps.
"""
# mypy: disable-error-code="untyped-decorator, misc"

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def reshape_and_cache_kernel(
    key: tl.tensor,
    value: tl.tensor,
    key_cache: tl.tensor,
    value_cache: tl.tensor,
    slot_mapping: tl.tensor,
    key_token_stride: int,
    key_head_stride: int,
    value_token_stride: int,
    value_head_stride: int,
    num_kv_heads: tl.constexpr,
    head_dim: tl.constexpr,
    heads_tile: tl.constexpr,
    dim_tile: tl.constexpr,
) -> None:
    """One program per token: copy its K and V [num_kv_heads, head_dim] into its slot, unless that is below 0."""
    raise NotImplementedError("Phase 6, task 8: reshape_and_cache_kernel")


@triton.jit
def paged_decode_kernel(
    query: tl.tensor,
    key_cache: tl.tensor,
    value_cache: tl.tensor,
    block_tables: tl.tensor,
    seq_lens: tl.tensor,
    output: tl.tensor,
    scale: float,
    query_token_stride: int,
    query_head_stride: int,
    table_stride: int,
    num_kv_heads: tl.constexpr,
    group: tl.constexpr,
    head_dim: tl.constexpr,
    block_size: tl.constexpr,
    group_tile: tl.constexpr,
    dim_tile: tl.constexpr,
    block_tile: tl.constexpr,
) -> None:
    """One program per request and K/V head: its `group` query heads read the request's blocks, one at a time."""
    raise NotImplementedError("Phase 6, task 8: paged_decode_kernel")


def reshape_and_cache(key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor) -> None:
    """Store the step's K and V [T, kv_heads, head_dim] in their slots, in place, as `write_kv` does.

    K and V may be views in which only the last dimension is contiguous. The caches [blocks, block_size, kv_heads,
    head_dim] are contiguous; `slot_mapping` is [T] int64, and a token whose slot is below 0 is not stored.
    """
    raise NotImplementedError("Phase 6, task 8: reshape_and_cache")


def paged_decode_attention(
    query: Tensor, key_cache: Tensor, value_cache: Tensor, block_tables: Tensor, seq_lens: Tensor, scale: float
) -> Tensor:
    """Attend from one token of each request to all its tokens in the cache; return [R, heads, head_dim].

    query [R, heads, head_dim], which may be a view like K; contiguous caches [blocks, block_size, kv_heads,
    head_dim]; block_tables [R, longest] and seq_lens [R], int64, each length at least 1. Sums are taken in float32,
    whatever the dtype. The result is new and contiguous, with the query's dtype.
    """
    raise NotImplementedError("Phase 6, task 8: paged_decode_attention")
