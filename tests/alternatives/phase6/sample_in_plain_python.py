"""Sampling with lists, math.exp and a loop that subtracts from the draw."""

import math
from collections.abc import Sequence

from torch import Tensor

from mini_vllm.sampling_params import SamplingParams


def sample(logits: Tensor, params: Sequence[SamplingParams], draws: Sequence[float]) -> list[int]:
    return [choose(logits[index].tolist(), one, draws[index]) for index, one in enumerate(params)]


def choose(row: list[float], params: SamplingParams, draw: float) -> int:
    likeliest_first = sorted(range(len(row)), key=lambda token_id: -row[token_id])
    if params.temperature == 0:
        return likeliest_first[0]
    likeliest_first = likeliest_first[: params.top_k or None]
    weights = [math.exp((row[token_id] - max(row)) / params.temperature) for token_id in likeliest_first]
    limit, total, kept = params.top_p * math.fsum(weights), 0.0, 0
    while kept < len(weights) and (kept == 0 or total < limit):
        total += weights[kept]
        kept += 1
    left = draw * math.fsum(weights[:kept])
    for token_id, weight in zip(likeliest_first[:kept], weights, strict=False):
        left -= weight
        if left < 0:
            return token_id
    return likeliest_first[kept - 1]
