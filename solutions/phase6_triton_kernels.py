"""Phase 6, task 8 (optional), reference: the cache's two inner loops as Triton kernels.

vLLM: `csrc/cache_kernels.cu` and `v1/attention/ops/triton_unified_attention.py`. The online softmax is that of Milakov
and Gimelshein, 2018; splitting the keys is Flash-Decoding.
"""
# mypy: disable-error-code="untyped-decorator, misc"

import torch
import triton
import triton.language as tl
from torch import Tensor

from mini_vllm.core.cdiv import cdiv
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
    # int64, because in a large cache, slot times row size does not fit into 32 bits.
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping + token).to(tl.int64)
    heads, dims = tl.arange(0, heads_tile)[:, None], tl.arange(0, dim_tile)[None, :]
    is_there = (heads < num_kv_heads) & (dims < head_dim)
    # K and V are transposed views of the model's tensors, so they are not contiguous; the cache is.
    if slot >= 0:
        target = (slot * num_kv_heads + heads) * head_dim + dims
        new_key = tl.load(key + token * key_token_stride + heads * key_head_stride + dims, mask=is_there)
        new_value = tl.load(value + token * value_token_stride + heads * value_head_stride + dims, mask=is_there)
        tl.store(key_cache + target, new_key, mask=is_there)
        tl.store(value_cache + target, new_value, mask=is_there)


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
    request, kv_head = tl.program_id(0).to(tl.int64), tl.program_id(1)
    tile, part = tl.program_id(2) // num_parts, tl.program_id(2) % num_parts
    start = tl.load(query_start_loc + request)
    query_len = (tl.load(query_start_loc + request + 1) - start).to(tl.int32)
    seq_len = tl.load(seq_lens + request).to(tl.int32)
    # Each row is one token and one query head. `tl.dot` needs 16 rows, but each token has only `group` of them, which
    # is often fewer.
    tokens_tile: tl.constexpr = rows_tile // group
    if tile * tokens_tile >= query_len:
        return
    rows, dims = tl.arange(0, rows_tile), tl.arange(0, dim_tile)
    tokens = tile * tokens_tile + rows // group
    heads = kv_head * group + rows % group
    is_row = (rows < tokens_tile * group) & (tokens < query_len)
    is_number = is_row[:, None] & (dims[None, :] < head_dim)
    places = (start + tokens) * query_token_stride + heads * query_head_stride
    multiplied: tl.constexpr = tl.float32 if in_float32 else query.dtype.element_ty
    queries = tl.load(query + places[:, None] + dims[None, :], mask=is_number, other=0.0).to(multiplied)
    positions = seq_len - query_len + tokens
    num_visible = seq_len - query_len + tl.minimum(query_len, (tile + 1) * tokens_tile)
    length = tl.cdiv(tl.cdiv(num_visible, keys_tile), num_parts) * keys_tile
    end = tl.minimum(num_visible, (part + 1) * length)
    # Online softmax: the scores do not all fit into registers, so keep the largest score so far and two sums relative
    # to it.
    largest = tl.full([rows_tile], -float("inf"), tl.float32)
    total = tl.zeros([rows_tile], tl.float32)
    weighted = tl.zeros([rows_tile, dim_tile], tl.float32)
    for first in range(part * length, end, keys_tile):
        seen = first + tl.arange(0, keys_tile)
        is_key = seen < end
        # Several blocks at once: the block of each key is looked up in the table.
        blocks = tl.load(block_tables + request * table_stride + seen // block_size, mask=is_key, other=0)
        slots = blocks.to(tl.int64) * block_size + seen % block_size
        offsets = (slots[:, None] * num_kv_heads + kv_head) * head_dim + dims[None, :]
        is_there = is_key[:, None] & (dims[None, :] < head_dim)
        keys = tl.load(key_cache + offsets, mask=is_there, other=0.0).to(multiplied)
        values = tl.load(value_cache + offsets, mask=is_there, other=0.0).to(multiplied)
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
        scores = tl.where(seen[None, :] <= positions[:, None], scores, -float("inf"))
        new_largest = tl.maximum(largest, tl.max(scores, axis=1))
        # A row that has not seen a key yet stays at minus infinity, and nothing can be subtracted from that.
        shift = tl.where(new_largest == -float("inf"), 0.0, new_largest)
        # A larger score shrinks every earlier weight, by the same factor in both sums.
        shrink = tl.exp(largest - shift)
        weights = tl.exp(scores - shift[:, None])
        total = total * shrink + tl.sum(weights, axis=1)
        weighted = weighted * shrink[:, None] + tl.dot(weights.to(multiplied), values, input_precision="ieee")
        largest = new_largest
    answers = ((start + tokens) * num_kv_heads * group + heads) * num_parts + part
    if num_parts == 1:
        weighted = (weighted / total[:, None]).to(output.dtype.element_ty)
    else:
        tl.store(sums + 2 * answers, largest, mask=is_row)
        tl.store(sums + 2 * answers + 1, total, mask=is_row)
    tl.store(output + answers[:, None] * head_dim + dims[None, :], weighted, mask=is_number)


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
    row = tl.program_id(0).to(tl.int64)
    places = row * num_parts + tl.arange(0, num_parts)
    dims = tl.arange(0, dim_tile)
    largest = tl.load(sums + 2 * places)
    factors = tl.exp(largest - tl.max(largest, axis=0))
    numbers = tl.load(parts + places[:, None] * head_dim + dims[None, :], mask=dims[None, :] < head_dim, other=0.0)
    total = tl.sum(tl.load(sums + 2 * places + 1) * factors, axis=0)
    answer = tl.sum(numbers * factors[:, None], axis=0) / total
    tl.store(output + row * head_dim + dims, answer.to(output.dtype.element_ty), mask=dims < head_dim)


def reshape_and_cache(key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor) -> None:
    """Store the step's K and V [T, kv_heads, head_dim] in their slots, in place, as `write_kv` does.

    K and V may be views in which only the last dimension is contiguous. The caches [blocks, block_size, kv_heads,
    head_dim] are contiguous; `slot_mapping` is [T] int64, and a token whose slot is below 0 is not stored.
    """
    num_tokens, num_kv_heads, head_dim = key.shape
    heads_tile, dim_tile = triton.next_power_of_2(num_kv_heads), triton.next_power_of_2(head_dim)
    reshape_and_cache_kernel[(num_tokens,)](
        *(key, value, key_cache, value_cache, slot_mapping),
        *(*key.stride()[:2], *value.stride()[:2], num_kv_heads, head_dim, heads_tile, dim_tile),
    )


def paged_attention(query: Tensor, key_cache: Tensor, value_cache: Tensor, batch: FlatBatch, scale: float) -> Tensor:
    """Attend from each token to its request's tokens up to and including itself, like phase 6's `paged_attention`.

    query [T, heads, head_dim] may be a view, like K; the caches [blocks, block_size, kv_heads, head_dim] are
    contiguous. The function reads `block_tables`, `seq_lens` and `query_start_loc` from the batch; on the host it reads
    only `query_lens`. Sums are computed in float32, whatever the dtype. The result is new and contiguous, with the
    query's dtype.
    """
    num_tokens, num_heads, head_dim = query.shape
    block_size, num_kv_heads = key_cache.shape[1:3]
    group, dim_tile = num_heads // num_kv_heads, max(16, triton.next_power_of_2(head_dim))
    rows_tile = max(16 if max(batch.query_lens) == 1 else 64, triton.next_power_of_2(group))
    keys_tile = min(128, max(16, TILE_BYTES // (dim_tile * key_cache.element_size())))
    num_tiles = cdiv(max(batch.query_lens), rows_tile // group)
    # Only the device knows the requests' lengths, so each part is a share of a request's own keys.
    longest = cdiv(batch.block_tables.shape[1] * block_size, keys_tile)
    wanted = cdiv(NUM_PROGRAMS, len(batch.query_lens) * num_kv_heads * num_tiles)
    num_parts = triton.next_power_of_2(min(wanted, longest, MAX_PARTS))
    output = parts = sums = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    if num_parts > 1:
        shape = (num_tokens, num_heads, num_parts)
        parts, sums = (torch.empty(*shape, size, dtype=torch.float32, device=query.device) for size in (head_dim, 2))
    paged_attention_kernel[(len(batch.query_lens), num_kv_heads, num_tiles * num_parts)](
        *(query, key_cache, value_cache, batch.block_tables, batch.seq_lens, batch.query_start_loc, parts, sums),
        *(scale, *query.stride()[:2], batch.block_tables.stride(0), num_kv_heads, group, head_dim, block_size),
        *(num_parts, rows_tile, dim_tile, keys_tile),
        in_float32=query.device.type == "cpu",  # the interpreter cannot multiply bfloat16 tiles
    )
    if num_parts > 1:
        combine_kernel[(num_tokens * num_heads,)](parts, sums, output, head_dim, num_parts, dim_tile)
    return output
