"""Changes logits before a token is sampled, and computes the distribution from which it is drawn.

`min_tokens`, `logit_bias` and the three penalties are implemented here; temperature, top-k and top-p use transformers'
code. Phase 6's sampler receives the result. (vLLM: `v1/sample/logits_processor/builtin.py` and
`v1/sample/ops/penalties.py`.)
"""

import math
from array import array
from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from mini_vllm.core.request import Request
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.runner.draws import draw
from mini_vllm.sampling_params import SamplingParams

Rows = Sequence[tuple[ScheduledRequest, int]]  # for each row: its request, and how many drafts precede its token


def processed_logits(rows: Rows, logits: Tensor) -> Tensor:
    """Apply the requests' settings to logits [S, vocab]; return a copy, or `logits` itself if nothing changes."""
    chosen = [index for index, (one, _) in enumerate(rows) if one.request.sampling_params.changes_logits]
    if not chosen:
        return logits
    changed = logits.clone()
    for index in chosen:
        scheduled, num_drafts = rows[index]
        output = [*scheduled.request.output_token_ids, *scheduled.draft_token_ids[:num_drafts]]
        _process_row(changed[index], scheduled.request, output)
    return changed


def _process_row(logits: Tensor, request: Request, output_token_ids: Sequence[int]) -> None:
    """Change one row in place, in vLLM's order: forbidden tokens and biases before the penalties."""
    params = request.sampling_params
    if len(output_token_ids) < params.min_tokens:
        logits[_stop_token_ids(request, len(logits))] = -math.inf
    if params.logit_bias:  # up to 1,024 entries: an array is read three times as fast as a list
        token_ids = torch.frombuffer(array("q", params.logit_bias), dtype=torch.int64).to(logits.device)
        biases = torch.frombuffer(array("d", params.logit_bias.values()), dtype=torch.float64)
        logits.index_add_(0, token_ids, biases.to(logits))
    if params.repetition_penalty not in (None, 1):
        seen = list({*request.prompt_token_ids, *output_token_ids})
        old = logits[seen]
        changed = torch.where(old > 0, old / params.repetition_penalty, old * params.repetition_penalty)
        logits[seen] = changed.clamp(max=torch.finfo(old.dtype).max)  # a penalty near 0 would give infinity
    if params.frequency_penalty or params.presence_penalty:
        counts = Counter(output_token_ids)
        times = torch.tensor(list(counts.values()), dtype=logits.dtype, device=logits.device)
        logits[list(counts)] -= params.frequency_penalty * times + params.presence_penalty


def _stop_token_ids(request: Request, vocab_size: int) -> list[int]:
    params = request.sampling_params
    ends = {*params.stop_token_ids, *(() if params.ignore_eos else request.eos_token_ids)}
    return [token_id for token_id in ends if 0 <= token_id < vocab_size]


def probabilities(logits: Tensor, params: SamplingParams) -> Tensor:
    """Return the probability of each token [rows, vocab] in float64. The temperature must be above 0."""
    chosen = LogitsProcessorList([TemperatureLogitsWarper(params.temperature)])
    if params.top_k:
        chosen.append(TopKLogitsWarper(params.top_k))
    if params.top_p < 1:
        chosen.append(TopPLogitsWarper(params.top_p))
    no_text = torch.empty(len(logits), 0, dtype=torch.int64)
    return chosen(no_text, logits.double()).softmax(dim=-1)  # type: ignore[arg-type]


def draw_token(probs: Tensor, request: Request) -> int:
    """Draw the request's next token from probabilities [vocab]."""
    sums = probs.cumsum(dim=-1)
    # Rounding may leave the last sum less than 1. Dividing by it makes the last sum 1, which is greater than any random
    # number drawn.
    return int(torch.searchsorted(sums / sums[-1], draw(request), right=True))
