"""All rows at once in torch: ratios, the first rejection by argmax, the token by searchsorted."""

from collections.abc import Sequence

import torch


def rejection_sample(
    draft_token_ids: Sequence[int],
    draft_probs: torch.Tensor,
    target_probs: torch.Tensor,
    draws: Sequence[tuple[float, float]],
) -> list[int]:
    num_drafts = len(draft_token_ids)
    drafts = torch.tensor(draft_token_ids, dtype=torch.int64)
    numbers = torch.tensor(draws, dtype=torch.float64)
    places = torch.arange(num_drafts)
    ratios = target_probs[places, drafts].double() / draft_probs[places, drafts].double()
    rejected = [*(numbers[:num_drafts, 0] >= ratios).tolist(), True]
    first = rejected.index(True)
    weights = target_probs[first].double()
    if first < num_drafts:
        surplus = (weights - draft_probs[first].double()).clamp(min=0)
        weights = surplus if bool(surplus.sum() > 0) else weights
    sums = weights.cumsum(0)
    place = torch.searchsorted(sums, numbers[first, 1] * sums[-1], right=True)
    return [int(token_id) for token_id in draft_token_ids[:first]] + [int(place)]
