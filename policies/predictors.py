"""Predictions of output lengths in tokens, made of the true ones."""

import random
from collections.abc import Callable, Mapping
from functools import cache

from mini_vllm.core.request import Request

Predict = Callable[[Request], float]


def oracle(lengths: Mapping[str, int]) -> Predict:
    """Return a predictor that knows the true lengths, by request id; of another request it expects `max_tokens`."""
    return lambda request: lengths.get(request.request_id, request.sampling_params.max_tokens)


def noisy(lengths: Mapping[str, int], sigma: float = 0.5, seed: int = 0) -> Predict:
    """Return an oracle that is wrong by a lognormal factor, always the same one for a request id.

    `sigma` is the standard deviation of the factor's logarithm: 0.5 means a factor of 1.65. Raises `ValueError` if it
    is negative.
    """
    if not sigma >= 0:
        raise ValueError(f"sigma must be at least 0, got {sigma!r}")
    exact = oracle(lengths)

    @cache
    def factor(request_id: str) -> float:
        return random.Random(f"{seed} {request_id}").lognormvariate(0.0, sigma)

    return lambda request: exact(request) * factor(request.request_id)
