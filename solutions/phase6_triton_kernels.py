"""Phase 6, task 8 (optional), reference: the cache's two inner loops as Triton kernels.

vLLM: `reshape_and_cache_flash` in `csrc/cache_kernels.cu` and `kernel_paged_attention_2d` in
`v1/attention/ops/chunked_prefill_paged_decode.py`. The online softmax is that of Milakov and Gimelshein, 2018.
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
    # int64: slot times row size exceeds 32 bits on a large cache.
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping + token).to(tl.int64)
    heads = tl.arange(0, heads_tile)[:, None]
    dims = tl.arange(0, dim_tile)[None, :]
    is_there = (heads < num_kv_heads) & (dims < head_dim)
    # K and V are transposed views of the model's tensors, so they have strides; the cache is contiguous.
    if slot >= 0:
        target = (slot * num_kv_heads + heads) * head_dim + dims
        new_key = tl.load(key + token * key_token_stride + heads * key_head_stride + dims, mask=is_there)
        new_value = tl.load(value + token * value_token_stride + heads * value_head_stride + dims, mask=is_there)
        tl.store(key_cache + target, new_key, mask=is_there)
        tl.store(value_cache + target, new_value, mask=is_there)


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
    request = tl.program_id(0).to(tl.int64)
    kv_head = tl.program_id(1)
    seq_len = tl.load(seq_lens + request)
    rows = tl.arange(0, group_tile)
    dims = tl.arange(0, dim_tile)
    places = tl.arange(0, block_tile)
    heads = kv_head * group + rows[:, None]
    is_query = (rows[:, None] < group) & (dims[None, :] < head_dim)
    start = query + request * query_token_stride + heads * query_head_stride
    queries = tl.load(start + dims[None, :], mask=is_query, other=0.0).to(tl.float32)

    # Online softmax: not all scores fit into registers, so keep the largest score so far and two sums relative to it.
    largest = tl.full([group_tile], -float("inf"), tl.float32)
    total = tl.zeros([group_tile], tl.float32)
    weighted = tl.zeros([group_tile, dim_tile], tl.float32)
    for index in range(0, tl.cdiv(seq_len, block_size)):
        block = tl.load(block_tables + request * table_stride + index).to(tl.int64)
        is_token = (places < block_size) & (index * block_size + places < seq_len)
        is_there = is_token[:, None] & (dims[None, :] < head_dim)
        slots = block * block_size + places
        offsets = (slots[:, None] * num_kv_heads + kv_head) * head_dim + dims[None, :]
        keys = tl.load(key_cache + offsets, mask=is_there, other=0.0).to(tl.float32)
        values = tl.load(value_cache + offsets, mask=is_there, other=0.0).to(tl.float32)
        # Broadcasting instead of `tl.dot`, which needs at least 16 rows; a group has 1 to 8.
        scores = tl.sum(queries[:, None, :] * keys[None, :, :], axis=2) * scale
        scores = tl.where(is_token[None, :], scores, -float("inf"))
        new_largest = tl.maximum(largest, tl.max(scores, axis=1))
        # A larger score makes every earlier weight smaller, by one factor for both sums.
        shrink = tl.exp(largest - new_largest)
        weights = tl.exp(scores - new_largest[:, None])
        total = total * shrink + tl.sum(weights, axis=1)
        weighted = weighted * shrink[:, None] + tl.sum(weights[:, :, None] * values[None, :, :], axis=1)
        largest = new_largest
    target = output + (request * num_kv_heads * group + heads) * head_dim + dims[None, :]
    tl.store(target, (weighted / total[:, None]).to(output.dtype.element_ty), mask=is_query)


def reshape_and_cache(key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor) -> None:
    """Store the step's K and V [T, kv_heads, head_dim] in their slots, in place, as `write_kv` does.

    K and V may be views in which only the last dimension is contiguous. The caches [blocks, block_size, kv_heads,
    head_dim] are contiguous; `slot_mapping` is [T] int64, and a token whose slot is below 0 is not stored.
    """
    num_tokens, num_kv_heads, head_dim = key.shape
    reshape_and_cache_kernel[(num_tokens,)](
        key,
        value,
        key_cache,
        value_cache,
        slot_mapping,
        key.stride(0),
        key.stride(1),
        value.stride(0),
        value.stride(1),
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        heads_tile=triton.next_power_of_2(num_kv_heads),
        dim_tile=triton.next_power_of_2(head_dim),
    )


def paged_decode_attention(
    query: Tensor, key_cache: Tensor, value_cache: Tensor, block_tables: Tensor, seq_lens: Tensor, scale: float
) -> Tensor:
    """Attend from one token of each request to all its tokens in the cache; return [R, heads, head_dim].

    query [R, heads, head_dim], which may be a view like K; contiguous caches [blocks, block_size, kv_heads,
    head_dim]; block_tables [R, longest] and seq_lens [R], int64, each length at least 1. Sums are taken in float32,
    whatever the dtype. The result is new and contiguous, with the query's dtype.
    """
    num_requests, num_heads, head_dim = query.shape
    block_size, num_kv_heads = key_cache.shape[1:3]
    group = num_heads // num_kv_heads
    output = torch.empty(query.shape, dtype=query.dtype, device=query.device)
    paged_decode_kernel[(num_requests, num_kv_heads)](
        query,
        key_cache,
        value_cache,
        block_tables,
        seq_lens,
        output,
        scale,
        query.stride(0),
        query.stride(1),
        block_tables.stride(0),
        num_kv_heads=num_kv_heads,
        group=group,
        head_dim=head_dim,
        block_size=block_size,
        group_tile=triton.next_power_of_2(group),
        dim_tile=triton.next_power_of_2(head_dim),
        block_tile=triton.next_power_of_2(block_size),
    )
    return output
