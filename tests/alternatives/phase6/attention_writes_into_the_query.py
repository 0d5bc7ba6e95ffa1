"""Attention writes into the query."""

from torch import Tensor

from mini_vllm.model.steps import FlatBatch
from solutions.phase6_gpu_runner import _attend_chunk


def paged_attention(query: Tensor, key_cache: Tensor, value_cache: Tensor, batch: FlatBatch, scale: float) -> Tensor:
    """Let each token attend to its own request's tokens up to itself; return [T, heads, head_dim].

    query [T, heads, head_dim]; caches [blocks, block_size, kv_heads, head_dim], already holding the
    step's own K and V. Several query heads share one K/V head: head h reads `h // (heads // kv_heads)`.
    """
    output = query
    for index, query_len in enumerate(batch.query_lens):
        start = int(batch.query_start_loc[index])
        tokens = slice(start, start + query_len)
        output[tokens] = _attend_chunk(query[tokens], key_cache, value_cache, batch, index, scale)
    return output
