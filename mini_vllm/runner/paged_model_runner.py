"""The paged model runner: one forward pass for all requests of a step, over a KV cache in blocks."""

from collections.abc import Sequence

import torch
from torch import Tensor

from mini_vllm.core.electives import SpeculationFunctions
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.runner.drafts.verify import verify_drafts
from mini_vllm.runner.logits_processors import Rows, draw, processed_logits
from mini_vllm.runner.paged_model import ForwardPass
from mini_vllm.runner.step_buffer import StepBuffer
from mini_vllm.runner.steps import RunnerSteps
from mini_vllm.runner.token_logprobs import token_logprobs


class PagedModelRunner:
    """A `ModelRunner` for any transformers decoder with full attention in all layers.

    A request with drafts has several rows of logits, and `speculation` decides which of their tokens count.
    """

    def __init__(self, model: ForwardPass, steps: RunnerSteps, speculation: SpeculationFunctions | None = None) -> None:
        self.model = model
        self.steps = steps
        self.speculation = speculation
        self.vocab_size = model.vocab_size
        self.buffer = StepBuffer(model.device)

    @torch.inference_mode()
    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        """Compute the batch in one forward pass; return the new tokens of each request with `needs_token`."""
        with_drafts = [one.with_drafts() for one in batch]
        logits = self.model.forward(self.steps.flat_batch(with_drafts, self.model.block_size, self.buffer))
        rows = [(one, k) for one in batch if one.needs_token for k in range(len(one.draft_token_ids) + 1)]
        errors: dict[str, str] = {}
        # A sum is finite only if all its terms are, and one sum per row costs less than a test per logit.
        if not logits.sum(dim=-1).isfinite().all():
            usable = logits.isfinite().all(dim=-1).tolist()
            errors = {
                one.request.request_id: "the model returned logits that are not finite"
                for (one, _), is_usable in zip(rows, usable, strict=True)
                if not is_usable
            }
            kept = [index for index, (one, _) in enumerate(rows) if one.request.request_id not in errors]
            rows, logits = [rows[index] for index in kept], logits[kept]
        sampled: dict[str, list[int]] = {}
        processed = processed_logits(rows, logits)
        for (one, _), token_id in zip(rows, self.sample(rows, processed), strict=True):
            sampled.setdefault(one.request.request_id, []).append(token_id)
        if self.speculation is not None:
            sampled |= verify_drafts(self.speculation, rows, processed, sampled)
        return ModelRunnerOutput(sampled, errors, logprobs=token_logprobs(rows, logits, sampled))

    def sample(self, rows: Rows, logits: Tensor) -> list[int]:
        """Return a token for each row of logits [S, vocab]: the one after the request's first k drafts."""
        params = [one.request.sampling_params for one, _ in rows]
        draws = [draw(one.request, k) if one.request.sampling_params.temperature else 0.0 for one, k in rows]
        return self.steps.sample(logits, params, draws)
