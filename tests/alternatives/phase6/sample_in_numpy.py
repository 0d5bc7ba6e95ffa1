"""Sample in numpy."""

import numpy as np


def sample(logits, params, draws):
    """Choose one token per row of `logits` [S, vocab]. `draws` are numbers from 0 to 1, one per row.

    Temperature 0 takes the likeliest token. Otherwise: divide by the temperature, keep the `top_k`
    likeliest, of those keep the fewest whose probabilities reach `top_p`, and walk through what is kept
    from the likeliest on until the probabilities add up to more than the draw. After each of the two
    cuts what is kept is scaled to add up to 1.
    """
    tokens = []
    for row, p, u in zip(logits.double().numpy(), params, draws, strict=False):
        if p.temperature == 0:
            tokens.append(int(np.argmax(row)))
            continue
        z = row / p.temperature
        w = np.exp(z - z.max())
        order = np.argsort(-w, kind="stable")
        w = w[order] / w.sum()
        if p.top_k:
            w = w[: p.top_k]
            w = w / w.sum()
        total, kept = 0.0, []
        for x in w:
            kept.append(x)
            total += x
            if total >= p.top_p:
                break
        walk = 0.0
        chosen = len(kept) - 1
        for i, x in enumerate(kept):
            walk += x / total
            if walk > u:
                chosen = i
                break
        tokens.append(int(order[chosen]))
    return tokens
