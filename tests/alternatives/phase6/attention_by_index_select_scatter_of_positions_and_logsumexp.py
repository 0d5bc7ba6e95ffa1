"""Attention by index_select, scatter of positions and logsumexp."""

import torch


def paged_attention(query, key_cache, value_cache, batch, scale):
    """Let each token attend to its own request's tokens up to itself; return [T, heads, head_dim].

    query [T, heads, head_dim]; caches [blocks, block_size, kv_heads, head_dim], already holding the
    step's own K and V. Several query heads share one K/V head: head h reads `h // (heads // kv_heads)`.
    """
    pieces = []
    size = key_cache.shape[1]
    flat_k, flat_v = key_cache.flatten(0, 1), value_cache.flatten(0, 1)
    for n, seq, table, q in zip(
        batch.query_lens, batch.seq_lens.tolist(), batch.block_tables, query.split(batch.query_lens), strict=False
    ):
        p = torch.arange(seq, device=query.device)
        slots = table[p // size] * size + p % size
        k = flat_k.index_select(0, slots).unsqueeze(2)
        v = flat_v.index_select(0, slots).unsqueeze(2)
        q = q.reshape(n, key_cache.shape[2], -1, q.shape[-1])
        scores = (q[:, None] * k[None]).sum(-1) * scale
        late = p[None, :] > (torch.arange(n, device=query.device) + seq - n)[:, None]
        scores = scores.masked_fill(late[:, :, None, None], float("-inf"))
        w = (scores - scores.logsumexp(1, keepdim=True)).exp()
        pieces.append((w[..., None] * v[None]).sum(1).reshape(n, -1, q.shape[-1]))
    return torch.cat(pieces).to(query.dtype)
