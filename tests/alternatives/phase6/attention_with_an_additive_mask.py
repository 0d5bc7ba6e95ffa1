"""One request after the other, decodes too, with K and V repeated by hand and a mask of 0 and minus infinity."""

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from mini_vllm.runner.steps import FlatBatch


def paged_attention(query: Tensor, key_cache: Tensor, value_cache: Tensor, batch: FlatBatch, scale: float) -> Tensor:
    results = []
    group = query.shape[1] // key_cache.shape[2]
    for index, part in enumerate(query.split(batch.query_lens)):
        seq_len, table = int(batch.seq_lens[index]), batch.block_tables[index]
        keys, values = (
            cache[table].reshape(-1, *cache.shape[2:])[:seq_len].repeat_interleave(group, 1).permute(1, 0, 2)
            for cache in (key_cache, value_cache)
        )
        mask = (
            torch.full((len(part), seq_len), float("-inf"), device=query.device)
            .triu(seq_len - len(part) + 1)
            .to(query.dtype)
        )
        results.append(scaled_dot_product_attention(part.permute(1, 0, 2), keys, values, mask, scale=scale))
    return torch.cat(results, dim=1).permute(1, 0, 2)
