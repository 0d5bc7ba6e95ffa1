"""Sample all in one go with masks."""

import torch


def sample(logits, params, draws):
    """Choose one token per row of `logits` [S, vocab]. `draws` are numbers from 0 to 1, one per row.

    Temperature 0 takes the likeliest token. Otherwise: divide by the temperature, keep the `top_k`
    likeliest, of those keep the fewest whose probabilities reach `top_p`, and walk through what is kept
    from the likeliest on until the probabilities add up to more than the draw. After each of the two
    cuts what is kept is scaled to add up to 1.
    """
    if not len(params):
        return []
    greedy = torch.tensor([p.temperature == 0 for p in params], device=logits.device)
    t = torch.tensor([p.temperature or 1.0 for p in params], dtype=torch.float64, device=logits.device)
    probs, ids = (logits.double() / t[:, None]).softmax(-1).sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(probs.shape[1], device=logits.device)[None]
    k = torch.tensor([p.top_k or probs.shape[1] for p in params], device=logits.device)
    probs = probs * (rank < k[:, None])
    probs = probs / probs.sum(-1, keepdim=True)
    p = torch.tensor([q.top_p for q in params], dtype=torch.float64, device=logits.device)
    before = torch.cat(
        [torch.zeros(len(params), 1, dtype=torch.float64, device=logits.device), probs.cumsum(-1)[:, :-1]], -1
    )
    keep = (before < p[:, None]) & (rank < k[:, None])
    probs = probs * keep
    reached = (probs / probs.sum(-1, keepdim=True)).cumsum(-1)
    u = torch.tensor(draws, dtype=torch.float64, device=logits.device)
    at = torch.minimum((reached <= u[:, None]).sum(-1), keep.sum(-1) - 1)
    chosen = ids.gather(1, at[:, None])[:, 0]
    return torch.where(greedy, logits.argmax(-1), chosen).tolist()
