"""Attention writes into the query."""

import torch
from torch import Tensor

from mini_vllm.runner.steps import FlatBatch
from solutions.phase6_gpu_runner import _attend


def paged_attention(query: Tensor, key_cache: Tensor, value_cache: Tensor, batch: FlatBatch, scale: float) -> Tensor:
    """Let each token attend to its own request's tokens up to itself; return [T, heads, head_dim]."""
    for index, query_len in enumerate(batch.query_lens):
        start = int(batch.query_start_loc[index])
        rows = slice(start, start + query_len)
        table = batch.block_tables[index]
        keys, values = (cache[table].flatten(0, 1)[None] for cache in (key_cache, value_cache))
        hidden = torch.arange(keys.shape[1], device=query.device) > batch.positions[rows][:, None]
        mask = torch.zeros(hidden.shape, device=query.device).masked_fill(hidden, -torch.inf)
        query[rows] = _attend(query[rows][None], keys, values, mask[None, None], scale)[0]
    return query
