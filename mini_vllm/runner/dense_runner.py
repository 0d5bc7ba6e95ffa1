"""Runs a plain forward pass over each request's whole text, without a KV cache, if phase 6 is absent.

This runner reads tokens from the request instead of the blocks, so a wrong block table has no effect on it. Grading
therefore uses the fake model, which reads the blocks.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.runner.loading import LoadedModel
from mini_vllm.runner.logits_processors import draw_token, probabilities, processed_logits
from mini_vllm.runner.token_logprobs import token_logprobs


class DenseModelRunner:
    """A `ModelRunner` that recomputes each request from its first token in every step: correct but slow."""

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.vocab_size = loaded.vocab_size

    @torch.inference_mode()
    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        """Return one new token for each request that needs one, or an error if its logits are not finite."""
        output = ModelRunnerOutput({})
        for scheduled in batch:
            if scheduled.needs_token:
                self._compute(scheduled, output)
        return output

    def _compute(self, scheduled: ScheduledRequest, output: ModelRunnerOutput) -> None:
        request = scheduled.request
        token_ids = torch.tensor([request.all_token_ids], device=self.loaded.device)
        logits: Tensor = self.loaded.model(input_ids=token_ids, use_cache=False, logits_to_keep=1).logits[:, -1]
        if not logits.isfinite().all():
            output.errors[request.request_id] = "the model returned logits that are not finite"
            return
        params, row = request.sampling_params, [(scheduled, 0)]
        processed = processed_logits(row, logits)
        is_greedy = not params.temperature
        token_id = int(processed.argmax()) if is_greedy else draw_token(probabilities(processed, params)[0], request)
        output.sampled_token_ids[request.request_id] = [token_id]
        output.logprobs |= token_logprobs(row, logits, output.sampled_token_ids)
