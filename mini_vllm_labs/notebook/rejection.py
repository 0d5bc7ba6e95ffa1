"""Runs phase 7's rejection sampling many times on a small vocabulary and compares it with the target."""

import random
from collections.abc import Sequence

from mini_vllm.assembly.elective_parts import speculation_functions_for
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.config import EngineConfig, SpeculativeConfig
from mini_vllm_labs.pictures.bars import SHARE, bars
from mini_vllm_labs.pictures.picture import Picture

SEED = 0


def draw_tokens(draft: Sequence[float], target: Sequence[float], num_draws: int, lineup: Lineup) -> list[list[float]]:
    """Draw and verify a draft `num_draws` times; return the fraction of each token and of kept drafts.

    `draft` and `target` are the drafter's and the model's distributions over a vocabulary. Raises `ValueError` if the
    lineup has no phase 7.
    """
    import torch

    functions = speculation_functions_for(lineup.speculation, EngineConfig(speculative_config=SpeculativeConfig()))
    assert functions is not None
    rng, counts, num_kept = random.Random(SEED), [0] * len(target), 0
    draft_probs, target_probs = torch.tensor([draft]), torch.tensor([target, target])
    for _ in range(num_draws):
        (token,) = rng.choices(range(len(draft)), draft)
        draws = [(rng.random(), rng.random()) for _ in range(2)]
        sampled = functions.rejection_sample([token], draft_probs, target_probs, draws)
        counts[sampled[0]] += 1
        num_kept += len(sampled) == 2
    return [[number / num_draws for number in counts], [num_kept / num_draws]]


def in_hundred(result: Sequence[Sequence[float]]) -> list[int]:
    """Return the percentage of each token and of the kept drafts as whole numbers."""
    return [round(100 * share) for shares in result for share in shares]


def token_bars(result: Sequence[Sequence[float]], names: Sequence[str], target: Sequence[float]) -> Picture:
    """Draw the result of `draw_tokens` with one bar per token, crossed by a line at the target's probability."""
    shares, (kept,) = result
    texts = {name: f"{share:.1%}" for name, share in zip(names, shares, strict=True)}
    return bars(
        f"tokens drawn, {kept:.0%} of the drafts kept",
        dict(zip(names, shares, strict=True)),
        texts,
        others=SHARE,
        marks=dict(zip(names, target, strict=True)),
        as_text=lambda share: f"{share:.0%}",
    )
