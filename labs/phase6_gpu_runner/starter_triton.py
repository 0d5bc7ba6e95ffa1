"""Phase 6, task 8 (optional): the cache's two inner loops as Triton kernels.

The kernels run on a GPU; without one, the tests use Triton's interpreter. On a GPU the runner uses the kernels as soon
as all five functions are written. `mini-vllm hint 6.8` prints a hint, one step at a time.
"""
# mypy: disable-error-code="untyped-decorator, misc"

import triton
import triton.language as tl
from torch import Tensor

from mini_vllm.runner.steps import FlatBatch

# with fewer programs, a large GPU would have idle multiprocessors (an H100 has 132, each with room for a few)
NUM_PROGRAMS = 512
MAX_PARTS = 32
TILE_BYTES = 16384  # for K, and the same for V: two tiles of each fit into a small GPU's shared memory


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
    """One program per token: copy its K and V [num_kv_heads, head_dim] into its slot unless the slot is below 0."""
    raise NotImplementedError("Phase 6, task 8: reshape_and_cache_kernel")


@triton.jit(do_not_specialize=["table_stride"])
def paged_attention_kernel(
    query: tl.tensor,
    key_cache: tl.tensor,
    value_cache: tl.tensor,
    block_tables: tl.tensor,
    seq_lens: tl.tensor,
    query_start_loc: tl.tensor,
    output: tl.tensor,
    sums: tl.tensor,
    scale: float,
    query_token_stride: int,
    query_head_stride: int,
    table_stride: int,
    num_kv_heads: tl.constexpr,
    group: tl.constexpr,
    head_dim: tl.constexpr,
    block_size: tl.constexpr,
    num_parts: tl.constexpr,
    rows_tile: tl.constexpr,
    dim_tile: tl.constexpr,
    keys_tile: tl.constexpr,
    in_float32: tl.constexpr,
) -> None:
    """One program per combination of request, K/V head, tile of the request's tokens, and part of its keys.

    With one part `output` is [T, heads, head_dim]. With more than one part, `output` is float32 [T, heads, num_parts,
    head_dim] and not yet normalised. With more than one part, `sums` [T, heads, num_parts, 2] receives each part's
    largest score and the sum of its weights relative to that score.
    """
    raise NotImplementedError("Phase 6, task 8: paged_attention_kernel")


@triton.jit
def combine_kernel(
    parts: tl.tensor,
    sums: tl.tensor,
    output: tl.tensor,
    head_dim: tl.constexpr,
    num_parts: tl.constexpr,
    dim_tile: tl.constexpr,
) -> None:
    """One program per token and query head: add up its parts. A part without keys has a largest score of -inf."""
    raise NotImplementedError("Phase 6, task 8: combine_kernel")


def reshape_and_cache(key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor) -> None:
    """Store the step's K and V [T, kv_heads, head_dim] in their slots, in place, as `write_kv` does.

    K and V may be views in which only the last dimension is contiguous. The caches [blocks, block_size, kv_heads,
    head_dim] are contiguous; `slot_mapping` is [T] int64, and a token whose slot is below 0 is not stored.
    """
    raise NotImplementedError("Phase 6, task 8: reshape_and_cache")


def paged_attention(query: Tensor, key_cache: Tensor, value_cache: Tensor, batch: FlatBatch, scale: float) -> Tensor:
    """Attend from each token to its request's tokens up to and including itself, like phase 6's `paged_attention`.

    query [T, heads, head_dim] may be a view, like K; the caches [blocks, block_size, kv_heads, head_dim] are
    contiguous. The function reads `block_tables`, `seq_lens` and `query_start_loc` from the batch; on the host it reads
    only `query_lens`. Sums are computed in float32, whatever the dtype. The result is new and contiguous, with the
    query's dtype.
    """
    raise NotImplementedError("Phase 6, task 8: paged_attention")
