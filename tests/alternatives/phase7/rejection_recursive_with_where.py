"""One row per call, the rest by recursion; torch.where and a mask in place of clamp."""

from collections.abc import Sequence

import torch


def rejection_sample(
    draft_token_ids: Sequence[int],
    draft_probs: torch.Tensor,
    target_probs: torch.Tensor,
    draws: Sequence[tuple[float, float]],
) -> list[int]:
    target, (keep, choose) = target_probs[0].double(), draws[0]
    if not len(draft_token_ids):
        return [choose_from(target, choose)]
    drafter, token_id = draft_probs[0].double(), draft_token_ids[0]
    if keep * drafter[token_id] < target[token_id]:
        rest = rejection_sample(draft_token_ids[1:], draft_probs[1:], target_probs[1:], draws[1:])
        return [token_id, *rest]
    more = torch.where(target > drafter, target - drafter, torch.zeros_like(target))
    return [choose_from(more if more.sum() > 0 else target, choose)]


def choose_from(weights: torch.Tensor, draw: float) -> int:
    possible = weights.nonzero().flatten()
    sums = (weights / weights.sum()).cumsum(0)
    above = (sums > draw).nonzero().flatten()
    return int(above[0]) if len(above) else int(possible[-1])
