"""A sampler that follows the docstring with lists and loops."""

import math
import random
from collections.abc import Sequence
from itertools import accumulate

from mini_vllm.sampling_params import SamplingParams

CLOSE = 1e-4


def scaled(probabilities: Sequence[float]) -> list[float]:
    """Return the probabilities scaled to add up to 1."""
    total = math.fsum(probabilities)
    return [probability / total for probability in probabilities]


def naive_sample(logits: Sequence[float], params: SamplingParams, draw: float) -> int | None:
    """Return the token, or None if the result depends on rounding, so that no test may expect one."""
    ranked = sorted(range(len(logits)), key=lambda token: -logits[token])
    if params.temperature == 0:
        return ranked[0]
    highest = max(logits)
    probabilities = scaled([math.exp((logits[token] - highest) / params.temperature) for token in ranked])
    if params.top_k > 0:
        probabilities = scaled(probabilities[: params.top_k])
    sums = list(accumulate(probabilities))
    if params.top_p < 1:
        if any(abs(reached - params.top_p) < CLOSE for reached in sums):
            return None
        sums = sums[: sum(reached < params.top_p for reached in sums) + 1]
    sums = [reached / sums[-1] for reached in sums]
    for token, reached in zip(ranked, sums[:-1], strict=False):
        if draw > 0 and abs(reached - draw) < CLOSE:
            return None
        if reached > draw:
            return token
    return ranked[len(sums) - 1]


def random_row(rng: random.Random, vocab_size: int) -> tuple[list[float], SamplingParams, float]:
    """Return logits, settings and a draw."""
    spread = rng.choice([2, 2, 2, 500])  # 500: exp of a logit is not finite
    logits = [rng.gauss(0, spread) for _ in range(vocab_size)]
    params = SamplingParams(
        temperature=rng.choice([0.0, 0.01, 0.1, 0.2, 0.3, 0.7, 1.0, 1.7]),
        top_k=rng.choice([0, 0, 1, 2, 3, 5, vocab_size, vocab_size + 5]),
        top_p=rng.choice([1.0, 1.0, 0.001, rng.uniform(0.05, 0.99)]),
    )
    return logits, params, rng.choice([0.0, 0.9999, rng.random(), rng.random(), rng.random()])
