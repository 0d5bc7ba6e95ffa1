"""Readable text while phase 6 is absent: a plain forward pass over each request's whole text, without a KV cache.

It reads the tokens from the request and not from the blocks, so a wrong block table changes nothing here.
Grading therefore runs on the fake model, which reads what the blocks hold.
"""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import LogitsProcessorList, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from mini_vllm.core.request import Request
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.runner.loading import LoadedModel
from mini_vllm.sampling_params import SamplingParams


class DenseModelRunner:
    """A `ModelRunner` that computes a request from its first token in every step: right, and slow."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.vocab_size = loaded.vocab_size

    @torch.inference_mode()
    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        """Return one new token for each request that needs one."""
        return ModelRunnerOutput(
            {
                scheduled.request.request_id: [self._next_token(scheduled.request)]
                for scheduled in batch
                if scheduled.needs_token
            }
        )

    def _next_token(self, request: Request) -> int:
        token_ids = torch.tensor([request.all_token_ids], device=self.loaded.device).long()
        logits: Tensor = self.loaded.model(input_ids=token_ids, use_cache=False, logits_to_keep=1).logits[:, -1]
        params = request.sampling_params
        if not params.temperature:
            return int(logits.argmax())
        draw = torch.Generator().manual_seed((request.seed + request.num_output_tokens) % 2**63)
        probabilities = warpers(params)(token_ids, logits.float()).softmax(dim=-1).cpu()  # type: ignore[arg-type]
        return int(torch.multinomial(probabilities, 1, generator=draw))


def warpers(params: SamplingParams) -> LogitsProcessorList:
    """Return transformers' own temperature, top-k and top-p."""
    chosen = LogitsProcessorList([TemperatureLogitsWarper(params.temperature)])
    if params.top_k:
        chosen.append(TopKLogitsWarper(params.top_k))
    if params.top_p < 1:
        chosen.append(TopPLogitsWarper(params.top_p))
    return chosen
