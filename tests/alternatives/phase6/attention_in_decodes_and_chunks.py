"""Decodes in one call, padded to the longest; chunks one by one, with a mask made from lengths."""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from mini_vllm.runner.steps import FlatBatch


def paged_attention(query: Tensor, key_cache: Tensor, value_cache: Tensor, batch: FlatBatch, scale: float) -> Tensor:
    output = torch.empty_like(query)
    decodes = [index for index, query_len in enumerate(batch.query_lens) if query_len == 1]
    if decodes:
        rows = batch.query_start_loc[decodes]
        output[rows] = _attend_decodes(query[rows], key_cache, value_cache, batch, decodes, scale)
    for index, query_len in enumerate(batch.query_lens):
        if query_len > 1:
            start = int(batch.query_start_loc[index])
            tokens = slice(start, start + query_len)
            output[tokens] = _attend_chunk(query[tokens], key_cache, value_cache, batch, index, scale)
    return output


def _attend_decodes(
    query: Tensor, key_cache: Tensor, value_cache: Tensor, batch: FlatBatch, decodes: list[int], scale: float
) -> Tensor:
    """All requests with one token at once, padded to the longest; query [N, heads, head_dim]."""
    num_kv_heads, head_dim = key_cache.shape[2:]
    seq_lens = batch.seq_lens[decodes]
    num_blocks = -(-int(seq_lens.max()) // key_cache.shape[1])
    tables = batch.block_tables[decodes, :num_blocks]
    keys = key_cache[tables].flatten(1, 2).transpose(1, 2)
    values = value_cache[tables].flatten(1, 2).transpose(1, 2)
    grouped = query.view(len(decodes), num_kv_heads, -1, head_dim)
    is_there = torch.arange(keys.shape[2], device=query.device) < seq_lens[:, None]
    mask = is_there[:, None, None, :]
    return scaled_dot_product_attention(grouped, keys, values, attn_mask=mask, scale=scale).reshape(query.shape)


def _attend_chunk(
    query: Tensor, key_cache: Tensor, value_cache: Tensor, batch: FlatBatch, index: int, scale: float
) -> Tensor:
    """One request with several tokens: causal, the diagonal ends at the lower right; query [n, heads, head_dim]."""
    query_len, seq_len = query.shape[0], int(batch.seq_lens[index])
    table = batch.block_tables[index, : -(-seq_len // key_cache.shape[1])]
    keys = key_cache[table].flatten(0, 1)[:seq_len]
    values = value_cache[table].flatten(0, 1)[:seq_len]
    mask = torch.ones(query_len, seq_len, dtype=torch.bool, device=query.device).tril(seq_len - query_len)
    attended = scaled_dot_product_attention(
        query.transpose(0, 1)[None],
        keys.transpose(0, 1)[None],
        values.transpose(0, 1)[None],
        attn_mask=mask,
        scale=scale,
        enable_gqa=True,
    )
    return attended[0].transpose(0, 1)
