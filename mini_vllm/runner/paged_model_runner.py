"""The paged model runner: one forward pass for all requests of a step, over a KV cache in blocks."""

import random
from collections.abc import Sequence

import torch

from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.runner.paged_model import ForwardPass
from mini_vllm.runner.step_buffer import StepBuffer
from mini_vllm.runner.steps import RunnerSteps


def draw(row: ScheduledRequest) -> float:
    """Return the random number, 0 <= draw < 1, for a request's next token, from its seed and number of outputs only."""
    return random.Random(f"{row.request.seed}:{row.request.num_output_tokens}").random()


class PagedModelRunner:
    """A `ModelRunner` for any transformers decoder with full attention in all layers."""

    def __init__(self, model: ForwardPass, steps: RunnerSteps) -> None:
        self.model = model
        self.steps = steps
        self.vocab_size = model.vocab_size
        self.buffer = StepBuffer(model.device)

    @torch.inference_mode()
    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        """Compute the batch in one forward pass; return one new token for each request with `needs_token`."""
        logits = self.model.forward(self.steps.flat_batch(batch, self.model.block_size, self.buffer))
        rows, errors = [row for row in batch if row.needs_token], dict[str, str]()
        # A sum is finite only if all its parts are, and one sum per row costs less than a test per logit.
        if not logits.sum(dim=-1).isfinite().all():
            usable = logits.isfinite().all(dim=-1).tolist()
            errors = {
                row.request.request_id: "the model returned logits that are not finite"
                for row, is_usable in zip(rows, usable, strict=True)
                if not is_usable
            }
            rows, logits = [row for row, is_usable in zip(rows, usable, strict=True) if is_usable], logits[usable]
        params = [row.request.sampling_params for row in rows]
        draws = [draw(row) if row_params.temperature else 0.0 for row, row_params in zip(rows, params, strict=True)]
        token_ids = self.steps.sample(logits, params, draws)
        sampled = {row.request.request_id: [token] for row, token in zip(rows, token_ids, strict=True)}
        return ModelRunnerOutput(sampled, errors)
