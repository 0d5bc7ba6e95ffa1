"""Lists of floats; the walk goes from the likeliest token on; the ratio is a division."""

from collections.abc import Sequence
from math import fsum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def rejection_sample(
    draft_token_ids: Sequence[int],
    draft_probs: "Tensor",
    target_probs: "Tensor",
    draws: Sequence[tuple[float, float]],
) -> list[int]:
    tokens: list[int] = []
    for token_id, drafter, target, (keep, choose) in zip(
        draft_token_ids, draft_probs.tolist(), target_probs.tolist(), draws, strict=False
    ):
        if keep < target[token_id] / drafter[token_id]:
            tokens.append(token_id)
        else:
            left = [max(p - q, 0.0) for p, q in zip(target, drafter, strict=True)]
            return [*tokens, walk(choose, left if any(left) else target)]
    return [*tokens, walk(draws[-1][1], target_probs[-1].tolist())]


def walk(draw: float, weights: list[float]) -> int:
    ranked = sorted((token for token, weight in enumerate(weights) if weight > 0), key=lambda token: -weights[token])
    share = draw * fsum(weights)
    for token in ranked:
        share -= weights[token]
        if share < 0:
            return token
    return ranked[-1]
