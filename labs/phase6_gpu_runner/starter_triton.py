"""Phase 6, task 7 (optional): the cache's two inner loops as Triton kernels.

They run on a GPU; without one, the tests use Triton's interpreter. On a GPU the runner uses the kernels
as soon as all four functions are written.
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
    # 1. `tl.program_id(0)` is the number of your token; load its slot. Offsets in int64: slot times row size
    #    exceeds 32 bits on a large cache.
    # 2. `tl.arange` needs a power of two: make the tile [heads_tile, dim_tile] and mask what is beyond the tensor.
    # 3. The model passes K and V as transposed views: a token's heads are `..._head_stride` numbers apart, and
    #    only the last dimension is contiguous. The cache is contiguous.
    # 4. A negative slot is padding: an `if` around loads and stores skips it.
    raise NotImplementedError("Phase 6, task 7: reshape_and_cache_kernel")


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
    # 1. Load the `group` query heads of this K/V head once: [group_tile, dim_tile], as float32.
    # 2. For each block up to ceil(seq_len / block_size): look its number up in the table, load its K and V
    #    [block_tile, dim_tile], mask the places after seq_len.
    # 3. You cannot keep all scores, so keep three running values per query head: the largest score so far, the
    #    sum of exp(score - largest), and the sum of exp(score - largest) * V. When a block brings a larger score,
    #    multiply both sums by exp(old largest - new largest), then add the block's share.
    # 4. At the end divide, and store in the dtype of `output`.
    # `tl.dot` needs at least 16 rows; a group has 1 to 8. Multiply with broadcasting and `tl.sum`.
    raise NotImplementedError("Phase 6, task 7: paged_decode_kernel")


def reshape_and_cache(key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor) -> None:
    """Store the step's K and V [T, kv_heads, head_dim] in their slots, in place, as `write_kv` does.

    The caches [blocks, block_size, kv_heads, head_dim] are contiguous; `slot_mapping` is [T] int64, and a token
    whose slot is below 0 is not stored.
    """
    # A launch is `kernel[grid](arguments)`: the grid is a tuple, the sizes that end in `_tile` are
    # `triton.next_power_of_2(...)`, strides come from `tensor.stride(dimension)`.
    raise NotImplementedError("Phase 6, task 7: reshape_and_cache")


def paged_decode_attention(
    query: Tensor, key_cache: Tensor, value_cache: Tensor, block_tables: Tensor, seq_lens: Tensor, scale: float
) -> Tensor:
    """Attend from one token of each request to all its tokens in the cache; return [R, heads, head_dim].

    query [R, heads, head_dim]; contiguous caches [blocks, block_size, kv_heads, head_dim]; block_tables
    [R, longest] and seq_lens [R], int64, each length at least 1. Sums are taken in float32, whatever the dtype.
    """
    # A grid of two dimensions: requests and K/V heads. The output is new and contiguous.
    raise NotImplementedError("Phase 6, task 7: paged_decode_attention")
