"""A runner that returns, with the tokens of a step, drafts for the next one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mini_vllm.config import SpeculativeConfig
from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.runner.drafts.adaptive_length import AdaptiveDraftLength
from mini_vllm.runner.drafts.proposer import Proposer


class DraftingRunner:
    """A `ModelRunner` around another one. (vLLM: `propose_draft_token_ids` in `v1/worker/gpu_model_runner.py`.)"""

    def __init__(self, inner: ModelRunner, proposer: Proposer, config: SpeculativeConfig, max_model_len: int) -> None:
        self.inner = inner
        self.proposer = proposer
        self.config = config
        self.max_model_len = max_model_len
        self._lengths: dict[str, AdaptiveDraftLength] = {}

    @property
    def vocab_size(self) -> int:
        return self.inner.vocab_size

    def execute_model(self, batch: Sequence[ScheduledRequest]) -> ModelRunnerOutput:
        """Compute the batch; return the new tokens of each request with `needs_token`, and its next drafts."""
        probs = self.proposer.draft_probs
        if probs:
            batch = [_with_probs(one, probs) for one in batch]
        output = self.inner.execute_model(batch)
        sampled = output.sampled_token_ids
        num_drafts = self._num_drafts([one for one in batch if one.request.request_id in sampled], sampled)
        drafts = self.proposer.propose(batch, sampled, num_drafts)
        output.draft_token_ids = {request_id: tokens for request_id, tokens in drafts.items() if tokens}
        return output

    def _num_drafts(
        self, batch: Sequence[ScheduledRequest], sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> dict[str, int]:
        """Return how many drafts each request gets that has sampled. Keeps the lengths of these requests alone."""
        lengths, self._lengths = self._lengths, {}
        num_drafts = {}
        for scheduled in batch:
            request, num_sampled = scheduled.request, len(sampled_token_ids[scheduled.request.request_id])
            most = self.config.num_speculative_tokens
            if self.config.adaptive:
                length = lengths.get(request.request_id) or AdaptiveDraftLength(most, self.proposer.cost_of_a_draft)
                self._lengths[request.request_id] = length
                if scheduled.draft_token_ids:
                    length.observe(len(scheduled.draft_token_ids), num_sampled - 1)
                most = length.next_length()
            # A step brings one token more than drafts; what lies behind the last possible token is never kept.
            num_tokens = request.num_tokens + num_sampled
            most = min(most, request.max_total_tokens(self.max_model_len) - num_tokens - 1)
            if most > 0:
                num_drafts[request.request_id] = most
        too_many = self.config.disable_by_batch_size
        return {} if too_many is not None and len(batch) > too_many else num_drafts


def _with_probs(scheduled: ScheduledRequest, draft_probs: Mapping[str, Any]) -> ScheduledRequest:
    """Return a share with what its drafts were drawn from."""
    drafts, request_id = scheduled.draft_token_ids, scheduled.request.request_id
    if not drafts or request_id not in draft_probs:
        return scheduled
    return replace(scheduled, draft_probs=draft_probs[request_id][: len(drafts)])
