"""All requests at once: repeat K and V for the query heads, mask by position, two einsums and a softmax."""

import torch
from torch import Tensor

from mini_vllm.runner.steps import FlatBatch


def paged_attention(query: Tensor, key_cache: Tensor, value_cache: Tensor, batch: FlatBatch, scale: float) -> Tensor:
    group = query.shape[1] // key_cache.shape[2]
    keys = key_cache[batch.block_tables].flatten(1, 2).repeat_interleave(group, dim=2)
    values = value_cache[batch.block_tables].flatten(1, 2).repeat_interleave(group, dim=2)
    owner = torch.arange(len(batch.query_lens), device=query.device).repeat_interleave(
        torch.tensor(batch.query_lens, device=query.device)
    )
    scores = torch.einsum("thd,tlhd->thl", query, keys[owner]) * scale
    is_hidden = torch.arange(keys.shape[1], device=query.device)[None] > batch.positions[:, None]
    scores = scores.masked_fill(is_hidden[:, None], -1e9)
    return torch.einsum("thl,tlhd->thd", scores.softmax(dim=-1), values[owner])


def write_kv(key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor) -> None:
    block_size = key_cache.shape[1]
    key_cache[slot_mapping // block_size, slot_mapping % block_size] = key
    value_cache.view(-1, *value_cache.shape[2:])[slot_mapping] = value
