"""How long an output will be, as an engine might guess it: the truth, the truth with an error, or a trained ranker."""

import math
import random
from collections.abc import Callable, Mapping

from mini_vllm.core.request import Request

Predict = Callable[[Request], float]  # tokens of the whole output, or any score that grows with them


def oracle(lengths: Mapping[str, int]) -> Predict:
    """Return the true length of each output, by request id: what no engine knows, and the best that one could."""
    return lambda request: lengths[request.request_id]


def noisy(lengths: Mapping[str, int], sigma: float, seed: int = 0) -> Predict:
    """Return the true lengths times a lognormal error: two of three guesses are within a factor of exp(`sigma`).

    Raises `ValueError` for a negative `sigma`.
    """
    if not sigma >= 0:
        raise ValueError(f"sigma must be at least 0, got {sigma}")

    def predict(request: Request) -> float:
        error = random.Random(f"{seed} {request.request_id}").gauss(0, sigma)
        return lengths[request.request_id] * math.exp(error)

    return predict
