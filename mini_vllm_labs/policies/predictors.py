"""Predicts the length of an output: the true length, the true length with an error, or a trained ranker's score."""

import json
import math
import random
from collections.abc import Callable, Mapping
from pathlib import Path

from mini_vllm.core.request import Request

Predict = Callable[[Request], float]  # the number of output tokens, or any score that grows with it
WEIGHTS = Path(__file__).with_name("length_ranker.json")


def oracle(lengths: Mapping[str, int]) -> Predict:
    """Predict the true length of each output, which no engine knows; this is the best possible predictor."""
    return lambda request: lengths[request.request_id]


def noisy(lengths: Mapping[str, int], sigma: float, seed: int = 0) -> Predict:
    """Predict the true lengths multiplied by a lognormal error; two thirds are within a factor of exp(`sigma`).

    Raises `ValueError` for a negative `sigma`.
    """
    if not sigma >= 0:
        raise ValueError(f"sigma must be at least 0, got {sigma}")

    def predict(request: Request) -> float:
        error = random.Random(f"{seed} {request.request_id}").gauss(0, sigma)
        return lengths[request.request_id] * math.exp(error)

    return predict


class LengthRanker:
    """Scores a prompt: a higher score means a longer answer. Only the order of scores matters.

    This is learning to rank (arXiv 2408.15792): shortest job first only needs to know which of two answers is longer.
    The paper ranks prompts with a small language model. Here the score is a sum of one weight per prompt token, trained
    on the embedded model's own answers.
    """

    def __init__(self, weights: Mapping[int, float]) -> None:
        self.weights = weights

    @classmethod
    def trained(cls) -> "LengthRanker":
        """Return the ranker that comes with the course."""
        stored = json.loads(WEIGHTS.read_text(encoding="utf-8"))
        return cls({int(token_id): weight for token_id, weight in stored["weights"].items()})

    def __call__(self, request: Request) -> float:
        return sum(self.weights.get(token_id, 0.0) for token_id in set(request.prompt_token_ids))
