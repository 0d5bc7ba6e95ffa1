"""The paged model runner computes all requests of a step in one forward pass, using a block-based KV cache."""

from collections.abc import Sequence
from contextlib import nullcontext

import torch
from torch import Tensor

from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.electives.grammar import StructuredOutputFunctions
from mini_vllm.electives.speculation import SpeculationFunctions
from mini_vllm.runner.adapters import StepAdapters
from mini_vllm.runner.drafts.verify import verify_drafts
from mini_vllm.runner.draws import draw
from mini_vllm.runner.grammar_masks import GrammarMasks
from mini_vllm.runner.logits_processors import Rows, processed_logits
from mini_vllm.runner.paged_model import ForwardPass
from mini_vllm.runner.step_buffer import StepBuffer
from mini_vllm.runner.steps import RunnerSteps
from mini_vllm.runner.threads.step_threads import StepThreads
from mini_vllm.runner.token_logprobs import token_logprobs


class PagedModelRunner:
    """A `ModelRunner` for any transformers decoder that the paged cache supports.

    A request with drafts has several rows of logits; `speculation` decides which of their tokens to keep. `structured`
    enables grammars, and `adapters` enables adapters. `threads` chooses the number of threads for each step.
    """

    def __init__(
        self,
        model: ForwardPass,
        steps: RunnerSteps,
        speculation: SpeculationFunctions | None = None,
        structured: StructuredOutputFunctions | None = None,
        adapters: StepAdapters | None = None,
        threads: StepThreads | None = None,
    ) -> None:
        self.model = model
        self.steps = steps
        self.speculation = speculation
        self.masks = None if structured is None else GrammarMasks(structured)
        self.adapters = adapters
        self.threads = threads
        self.vocab_size = model.vocab_size
        self.buffer = StepBuffer(model.device)

    @torch.inference_mode()
    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        """Compute the batch in one forward pass; return the new tokens for each request with `needs_token`."""
        num_tokens = sum(one.num_scheduled_tokens for one in batch)
        with nullcontext() if self.threads is None else self.threads.for_step(num_tokens):
            return self._compute(batch)

    def _compute(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        with_drafts = [one.with_drafts() for one in batch]
        if self.adapters is not None:
            self.adapters.start_step(with_drafts)
        logits = self.model.forward(self.steps.flat_batch(with_drafts, self.model.block_size, self.buffer))
        rows = [(one, k) for one in batch if one.needs_token for k in range(len(one.draft_token_ids) + 1)]
        is_usable = hide_unusable(logits)
        processed, errors = processed_logits(rows, logits), dict[str, str]()
        if self.masks is not None:
            processed, errors = self.masks.apply(rows, processed)
        tokens = self.sample(rows, processed)
        wrong = [one.request.request_id for (one, _), fine in zip(rows, is_usable.tolist(), strict=True) if not fine]
        errors |= dict.fromkeys(wrong, "the model returned logits that are not finite")
        if errors:
            kept = [index for index, (one, _) in enumerate(rows) if one.request.request_id not in errors]
            rows, tokens = [rows[index] for index in kept], [tokens[index] for index in kept]
            logits, processed = logits[kept], processed[kept]
        sampled: dict[str, list[int]] = {}
        for (one, _), token_id in zip(rows, tokens, strict=True):
            sampled.setdefault(one.request.request_id, []).append(token_id)
        if self.speculation is not None:
            sampled |= verify_drafts(self.speculation, rows, processed, sampled)
        return ModelRunnerOutput(sampled, errors, logprobs=token_logprobs(rows, logits, sampled))

    def sample(self, rows: Rows, logits: Tensor) -> list[int]:
        """Sample a token for each row of logits [S, vocab]; a row (request, k) follows the request's first k drafts."""
        params = [one.request.sampling_params for one, _ in rows]
        draws = [draw(one.request, k) if one.request.sampling_params.temperature else 0.0 for one, k in rows]
        return self.steps.sample(logits, params, draws)


def hide_unusable(logits: Tensor) -> Tensor:
    """Set non-finite rows of logits [S, vocab] to zero in place; return which rows were finite [S], on the host.

    On a GPU the result is valid only after a later read from the GPU, for example of the tokens.
    """
    # If the largest and smallest logits are finite, all are, and finding these two costs less than testing every logit.
    usable = torch.maximum(logits.amax(dim=-1), -logits.amin(dim=-1)).isfinite()
    # The check of `usable` is skipped on a GPU, where it would add a second device sync per step.
    if logits.device.type != "cpu" or not usable.all():
        logits.masked_fill_(~usable[:, None], 0.0)
    return usable.to("cpu", non_blocking=True)
