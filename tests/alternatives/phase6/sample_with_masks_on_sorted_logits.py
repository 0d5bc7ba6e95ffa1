"""Sample with masks on sorted logits."""

import torch


def sample(logits, params, draws):
    """Choose one token per row of `logits` [S, vocab]. `draws` are numbers from 0 to 1, one per row.

    Temperature 0 takes the likeliest token. Otherwise: divide by the temperature, keep the `top_k`
    likeliest, of those keep the fewest whose probabilities reach `top_p`, and walk through what is kept
    from the likeliest on until the probabilities add up to more than the draw. After each of the two
    cuts what is kept is scaled to add up to 1.
    """
    out = []
    for i, p in enumerate(params):
        row = logits[i].to(torch.float64)
        if p.temperature == 0:
            out.append(row.argmax().item())
            continue
        values, index = torch.sort(row / p.temperature, descending=True, stable=True)
        if p.top_k > 0:
            values[p.top_k :] = -torch.inf
        probs = values.softmax(-1)
        before = probs.cumsum(-1) - probs
        probs = torch.where(before < p.top_p, probs, 0.0)
        probs = probs / probs.sum()
        hit = (probs.cumsum(-1) > draws[i]).nonzero()
        place = hit[0].item() if len(hit) else int((probs > 0).sum()) - 1
        out.append(index[place].item())
    return out
