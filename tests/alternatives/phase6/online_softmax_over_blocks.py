"""Online softmax over blocks."""

import torch


def paged_attention(query, key_cache, value_cache, batch, scale):
    """Let each token attend to its own request's tokens up to itself; return [T, heads, head_dim].

    query [T, heads, head_dim]; caches [blocks, block_size, kv_heads, head_dim], already holding the
    step's own K and V. Several query heads share one K/V head: head h reads `h // (heads // kv_heads)`.
    """
    out = torch.empty_like(query)
    heads, kv_heads = query.shape[1], key_cache.shape[2]
    size = key_cache.shape[1]
    for i, n in enumerate(batch.query_lens):
        s, seq = int(batch.query_start_loc[i]), int(batch.seq_lens[i])
        q = query[s : s + n].float().transpose(0, 1) * scale
        top = torch.full((heads, n, 1), -1e30, device=query.device)
        total = torch.zeros(heads, n, 1, device=query.device)
        acc = torch.zeros(heads, n, q.shape[-1], device=query.device)
        pos = torch.arange(seq - n, seq, device=query.device)[None, :, None]
        for b in range((seq + size - 1) // size):
            block = int(batch.block_tables[i, b])
            k = key_cache[block].float().repeat_interleave(heads // kv_heads, 1).transpose(0, 1)
            v = value_cache[block].float().repeat_interleave(heads // kv_heads, 1).transpose(0, 1)
            at = torch.arange(b * size, (b + 1) * size, device=query.device)[None, None]
            scores = (q @ k.transpose(1, 2)).masked_fill(at > pos, -1e30)
            new = torch.maximum(top, scores.amax(-1, keepdim=True))
            w = (scores - new).exp() * (at <= pos)
            scale_old = (top - new).exp()
            acc = acc * scale_old + w @ v
            total = total * scale_old + w.sum(-1, keepdim=True)
            top = new
        out[s : s + n] = (acc / total).transpose(0, 1).to(query.dtype)
    return out
