"""Wraps a runner so that it returns drafts for the next step, and decides how many drafts are worthwhile."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mini_vllm.config import SpeculativeConfig
from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.electives.grammar import follow
from mini_vllm.runner.drafts.proposer import Proposer

FADING = 0.8  # weight of a step in the estimate, relative to the next step
LONGEST_PAUSE = 32


class DraftingRunner:
    """A `ModelRunner` that adds drafts. (vLLM: `propose_draft_token_ids` in `v1/worker/gpu_model_runner.py`.)"""

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
        """Compute the batch; return the new tokens and the next drafts for each request with `needs_token`."""
        probs = self.proposer.draft_probs
        if probs:
            batch = [_with_probs(one, probs) for one in batch]
        output = self.inner.execute_model(batch)
        sampled = output.sampled_token_ids
        num_drafts = self._num_drafts([one for one in batch if one.request.request_id in sampled], sampled)
        drafts = self.proposer.propose(batch, sampled, num_drafts)
        drafts |= {one.request.request_id: _legal(one, sampled, drafts) for one in batch if one.request.grammar}
        output.draft_token_ids = {request_id: tokens for request_id, tokens in drafts.items() if tokens}
        return output

    def _num_drafts(
        self, batch: Sequence[ScheduledRequest], sampled_token_ids: Mapping[str, Sequence[int]]
    ) -> dict[str, int]:
        """Return the number of drafts for each request in a batch. Drops the adaptive draft lengths of all other
        requests."""
        if self.config.disable_by_batch_size is not None and len(batch) > self.config.disable_by_batch_size:
            return {}
        lengths, self._lengths = self._lengths, {}
        cost_of_a_draft = self.proposer.cost_of_a_draft(len(batch))
        num_drafts = {}
        for scheduled in batch:
            request, num_sampled = scheduled.request, len(sampled_token_ids[scheduled.request.request_id])
            limit = self.config.num_speculative_tokens
            if self.config.adaptive:
                length = lengths.get(request.request_id) or AdaptiveDraftLength(limit, cost_of_a_draft)
                self._lengths[request.request_id] = length
                length.cost_of_a_draft = cost_of_a_draft
                if scheduled.draft_token_ids:
                    length.observe(len(scheduled.draft_token_ids), num_sampled - 1)
                limit = length.next_length()
            # A step yields one more token than it has drafts, and tokens beyond the request's limit are not kept.
            num_tokens = request.num_tokens + num_sampled
            limit = min(limit, request.max_total_tokens(self.max_model_len) - num_tokens - 1)
            if limit > 0:
                num_drafts[request.request_id] = limit
        return num_drafts


def _legal(
    scheduled: ScheduledRequest, sampled: Mapping[str, Sequence[int]], drafts: Mapping[str, Sequence[int]]
) -> list[int]:
    """Return the drafts of a request with a grammar, up to the first draft that the grammar forbids.

    The list is empty if the grammar fails; the next step's mask then fails too and ends only this request.
    """
    request = scheduled.request
    if request.grammar is None or not drafts.get(request.request_id):
        return []
    try:
        grammar = request.compiled_grammar()
        follow(grammar, request, sampled[request.request_id])
        return grammar.validate_tokens(drafts[request.request_id])
    except ValueError:
        return []


def _with_probs(scheduled: ScheduledRequest, draft_probs: Mapping[str, Any]) -> ScheduledRequest:
    """Return a scheduled request together with the distributions from which its drafts were drawn."""
    drafts, request_id = scheduled.draft_token_ids, scheduled.request.request_id
    if not drafts or request_id not in draft_probs:
        return scheduled
    return replace(scheduled, draft_probs=draft_probs[request_id][: len(drafts)])


class AdaptiveDraftLength:
    """Chooses how many drafts a request gets next, at most `max_drafts`, and pauses while drafts are not worthwhile.

    Let a be the fraction of correct drafts so far, among those whose predecessors were correct. A step with k drafts
    yields 1 + a + ... + a^k tokens and costs 1 + k * `cost_of_a_draft` steps. The k with the best ratio is used
    (Leviathan 2023, section 3.3). Pauses last 1, 2, 4, ... steps, up to 32, until drafts are worthwhile again. vLLM
    0.13.0 does not have this rule, and always gives every request the maximum number of drafts.
    """

    def __init__(self, max_drafts: int, cost_of_a_draft: float) -> None:
        self.max_drafts = max_drafts
        self.cost_of_a_draft = cost_of_a_draft
        # Nothing is known about this text yet, so start with drafts, but with only a few if they are expensive.
        self.num_right, self.num_tried = 1.4, 2.0
        self.pause = 0
        self.next_pause = 1

    def next_length(self) -> int:
        """Return the maximum number of drafts for the next step, or 0 during a pause. Called once per step."""
        if self.pause > 0:
            self.pause -= 1
            return 0
        return max(1, self._best_length())

    def observe(self, num_draft_tokens: int, num_accepted_tokens: int) -> None:
        """Record how many of a step's drafts were accepted. The step must have had at least one draft."""
        was_one_wrong = num_accepted_tokens < num_draft_tokens
        self.num_right = FADING * self.num_right + num_accepted_tokens
        self.num_tried = FADING * self.num_tried + num_accepted_tokens + was_one_wrong
        if self._best_length() > 0:
            self.next_pause = 1
        else:
            # An unpredictable text often stays unpredictable, so each failed attempt doubles the pause before the next.
            self.pause, self.next_pause = self.next_pause, min(2 * self.next_pause, LONGEST_PAUSE)

    def _best_length(self) -> int:
        share = self.num_right / self.num_tried
        best, most = 0, 1.0
        num_tokens = right = 1.0
        for length in range(1, self.max_drafts + 1):
            right *= share
            num_tokens += right
            if (rate := num_tokens / (1 + length * self.cost_of_a_draft)) > most:
                best, most = length, rate
        return best
