"""Three loops: requests, tokens, heads; slots are written one by one."""

import torch
from torch import Tensor

from mini_vllm.runner.steps import FlatBatch


def paged_attention(query: Tensor, key_cache: Tensor, value_cache: Tensor, batch: FlatBatch, scale: float) -> Tensor:
    rows = []
    group = query.shape[1] // key_cache.shape[2]
    for index, (start, length) in enumerate(zip(batch.query_start_loc.tolist(), batch.query_lens, strict=False)):
        keys = torch.cat([key_cache[block_id] for block_id in batch.block_tables[index]])
        values = torch.cat([value_cache[block_id] for block_id in batch.block_tables[index]])
        first = int(batch.seq_lens[index]) - length
        for offset in range(length):
            seen = first + offset + 1
            for head in range(query.shape[1]):
                scores = keys[:seen, head // group] @ query[start + offset, head] * scale
                rows.append(scores.softmax(0) @ values[:seen, head // group])
    return torch.stack(rows).reshape(query.shape)


def write_kv(key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor) -> None:
    for token, slot in enumerate(slot_mapping.tolist()):
        block_id, place = divmod(slot, key_cache.shape[1])
        key_cache[block_id, place].copy_(key[token])
        value_cache[block_id, place].copy_(value[token])
