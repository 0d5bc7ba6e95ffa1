"""The distribution that a request's tokens are drawn from, by transformers' own temperature, top-k and top-p."""

import torch
from torch import Tensor
from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from mini_vllm.sampling_params import SamplingParams


def probabilities(logits: Tensor, params: SamplingParams) -> Tensor:
    """Return the probability of each token [rows, vocab] in float64. The temperature is over 0."""
    chosen = LogitsProcessorList([TemperatureLogitsWarper(params.temperature)])
    if params.top_k:
        chosen.append(TopKLogitsWarper(params.top_k))
    if params.top_p < 1:
        chosen.append(TopPLogitsWarper(params.top_p))
    no_text = torch.empty(len(logits), 0, dtype=torch.int64)
    return chosen(no_text, logits.double()).softmax(dim=-1)  # type: ignore[arg-type]
