"""A predictor that learned from answers which prompts lead to long ones."""

import json
from collections.abc import Mapping
from pathlib import Path

from mini_vllm.core.request import Request

WEIGHTS = Path(__file__).with_name("length_ranker.json")


class LengthRanker:
    """Scores a prompt: the higher, the longer its answer. Only the order of scores means anything.

    Learning to rank (arXiv 2408.15792): shortest job first needs no lengths, only which of two answers is the longer
    one. There a small language model ranks prompts; here it is a sum of one weight per prompt token, trained on the
    embedded model's own answers by `python -m tools.length_ranker`.
    """

    def __init__(self, weights: Mapping[int, float]) -> None:
        self.weights = weights

    @classmethod
    def trained(cls) -> "LengthRanker":
        """Return the one that comes with the course."""
        stored = json.loads(WEIGHTS.read_text(encoding="utf-8"))
        return cls({int(token_id): weight for token_id, weight in stored["weights"].items()})

    def __call__(self, request: Request) -> float:
        return sum(self.weights.get(token_id, 0.0) for token_id in set(request.prompt_token_ids))
