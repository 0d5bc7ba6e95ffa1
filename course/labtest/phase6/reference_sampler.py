"""A sampler that follows the docstring with lists and loops."""

import math
import random
from collections.abc import Sequence

from mini_vllm.sampling_params import SamplingParams

CLOSE = 1e-4


def scaled(probabilities: Sequence[float]) -> list[float]:
    total = sum(probabilities)
    return [probability / total for probability in probabilities]


def naive_sample(logits: Sequence[float], params: SamplingParams, draw: float) -> int | None:
    """Return the token, or None if the outcome hangs on rounding, so that no test should ask for it."""
    ranked = sorted(range(len(logits)), key=lambda token: -logits[token])
    if params.temperature == 0:
        return ranked[0]
    highest = max(logits)
    probabilities = scaled([math.exp((logits[token] - highest) / params.temperature) for token in ranked])
    if params.top_k > 0:
        probabilities = scaled(probabilities[: params.top_k])
    kept: list[float] = []
    for probability in probabilities:
        kept.append(probability)
        if params.top_p < 1 and abs(sum(kept) - params.top_p) < CLOSE:
            return None
        if sum(kept) >= params.top_p:
            break
    kept = scaled(kept)
    reached = 0.0
    for token, probability in zip(ranked, kept[:-1], strict=False):
        reached += probability
        if draw > 0 and abs(reached - draw) < CLOSE:
            return None
        if reached > draw:
            return token
    return ranked[len(kept) - 1]


def random_row(rng: random.Random, vocab_size: int) -> tuple[list[float], SamplingParams, float]:
    """Return logits, settings and a draw."""
    spread = rng.choice([2, 2, 2, 500])  # 500: logits whose exponential is no number any more
    logits = [rng.gauss(0, spread) for _ in range(vocab_size)]
    params = SamplingParams(
        temperature=rng.choice([0.0, 0.3, 0.7, 1.0, 1.7]),
        top_k=rng.choice([0, 0, 1, 2, 3, 5, vocab_size, vocab_size + 5]),
        top_p=rng.choice([1.0, 1.0, 0.001, rng.uniform(0.05, 0.99)]),
    )
    return logits, params, rng.choice([0.0, 0.999999, rng.random(), rng.random(), rng.random()])
