"""Vectorized sampling in float64: masks instead of cuts, searchsorted for the draw."""

from collections.abc import Sequence

import torch
from torch import Tensor

from mini_vllm.sampling_params import SamplingParams


def sample(logits: Tensor, params: Sequence[SamplingParams], draws: Sequence[float]) -> list[int]:
    if not params:
        return []
    vocab_size = logits.shape[1]
    logits = logits.double()
    temperature = torch.tensor([one.temperature for one in params], device=logits.device)
    top_k = torch.tensor([one.top_k or vocab_size for one in params], device=logits.device)
    top_p = torch.tensor([one.top_p for one in params], device=logits.device)
    scaled = logits / temperature.where(temperature > 0, torch.ones((), device=logits.device))[:, None]
    scaled, token_ids = scaled.sort(dim=-1, descending=True)
    scaled = scaled.masked_fill(torch.arange(vocab_size, device=logits.device)[None] >= top_k[:, None], float("-inf"))
    kept = scaled.softmax(dim=-1)
    before = kept.cumsum(dim=-1) - kept
    kept = kept.masked_fill((before >= top_p[:, None]) & (top_p < 1)[:, None], 0.0)
    kept[:, 0] = kept[:, 0].clamp(min=1e-9)
    reached = kept.cumsum(dim=-1) / kept.sum(dim=-1, keepdim=True)
    rank = torch.searchsorted(reached, torch.tensor(draws, device=logits.device)[:, None], right=True)
    rank = torch.minimum(rank, (kept > 0).sum(dim=-1, keepdim=True) - 1)
    tokens: list[int] = torch.where(temperature == 0, logits.argmax(dim=-1), token_ids.gather(1, rank)[:, 0]).tolist()
    return tokens
