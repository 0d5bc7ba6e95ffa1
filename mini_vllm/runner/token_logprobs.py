"""Log probabilities of sampled tokens from the model's logits, before any penalty, bias or temperature.

vLLM: `gather_logprobs` in `v1/sample/sampler.py`, with its default `logprobs_mode`, `raw_logprobs`.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mini_vllm.outputs import Logprob, TokenLogprobs
from mini_vllm.runner.logits_processors import Rows


def token_logprobs(
    rows: Rows, logits: Tensor, sampled_token_ids: Mapping[str, Sequence[int]]
) -> dict[str, list[TokenLogprobs]]:
    """Return the logprobs of each sampled token, for requests with `logprobs`. `logits` has shape [S, vocab]."""
    found: dict[str, list[TokenLogprobs]] = {}
    for index, (one, num_drafts) in enumerate(rows):
        sampled, num_likeliest = sampled_token_ids[one.request.request_id], one.request.sampling_params.logprobs
        if num_likeliest is not None and num_drafts < len(sampled):
            row = _logprobs_of_row(logits[index], sampled[num_drafts], num_likeliest)
            found.setdefault(one.request.request_id, []).append(row)
    return found


def _logprobs_of_row(logits: Tensor, token_id: int, num_likeliest: int) -> TokenLogprobs:
    logprobs = logits.float().log_softmax(dim=-1)
    own = float(logprobs[token_id])
    values, token_ids = torch.topk(logprobs, min(num_likeliest, len(logprobs)))
    likeliest = zip(token_ids.tolist(), values.tolist(), strict=True)
    ranked = {other: Logprob(value, rank) for rank, (other, value) in enumerate(likeliest, start=1)}
    # A token among the most likely keeps its rank from `topk`, because counting larger values would rank ties
    # differently.
    return {token_id: ranked.get(token_id) or Logprob(own, int((logprobs > own).sum()) + 1)} | ranked
