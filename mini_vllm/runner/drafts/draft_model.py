"""Drafts from a small model with the same vocabulary. (vLLM: `propose` in `v1/spec_decode/eagle.py`.)"""

import sys
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.core.request import Request
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.runner.drafts.proposer import cost_of_a_row
from mini_vllm.sampling_params import SamplingParams

GREEDY = SamplingParams(temperature=0.0)
COST_OF_A_PASS = 0.3  # measured with the embedded model and its draft model; smaller for a larger target


class DraftModel:
    """A `Proposer` that runs a small model with the target's block tables; slots hold both models' K and V.

    The small model's first pass computes the target's latest tokens and the sampled token; each further pass computes
    only the newest draft. Wrong or missing K and V of the small model reduce the acceptance rate, but never lead to a
    wrong token. A text of more than `longest` tokens, the small model's limit, gets no drafts.
    """

    def __init__(self, runner: ModelRunner, block_size: int, longest: int = sys.maxsize) -> None:
        self.runner = runner
        self.block_size = block_size
        self.longest = longest
        self.draft_probs: dict[str, Any] = {}
        self._num_computed_tokens: dict[str, int] = {}

    def cost_of_a_draft(self, num_requests: int) -> float:
        """Return the cost of one pass of the small model plus the cost of verifying its draft."""
        return COST_OF_A_PASS + cost_of_a_row(num_requests)

    def propose(
        self,
        batch: Sequence[ScheduledRequest],
        sampled_token_ids: Mapping[str, Sequence[int]],
        num_drafts: Mapping[str, int],
    ) -> dict[str, list[int]]:
        """Return drafts keyed by request id; see `Proposer`."""
        if len(self._num_computed_tokens) > 2 * len(batch) + 64:
            self._forget_all_but({scheduled.request.request_id for scheduled in batch})
        shares, limits = [], {}
        for scheduled in batch:
            request_id = scheduled.request.request_id
            sampled = sampled_token_ids.get(request_id, ())
            share = self._share(scheduled, sampled)
            # Computing draft i needs the slot of the token before it.
            num_slots = min(len(scheduled.block_ids) * self.block_size, self.longest)
            limits[request_id] = min(num_drafts.get(request_id, 0), num_slots - share.request.num_tokens + 1)
            share.needs_token = bool(sampled) and limits[request_id] > 0
            if sampled and not share.needs_token:
                share.num_scheduled_tokens -= 1  # the sampled token may not have a slot yet
            # Prompts are always computed, because other requests may share their blocks. A decode step without drafts
            # can catch up later.
            is_prompt = scheduled.num_scheduled_tokens - len(scheduled.draft_token_ids) > 1
            is_short = share.num_computed_tokens + share.num_scheduled_tokens <= self.longest
            is_computed = (share.needs_token or is_prompt) and is_short
            if is_computed:
                shares.append(share)
            self._num_computed_tokens[request_id] = share.num_computed_tokens + is_computed * share.num_scheduled_tokens
        return self._draft(shares, limits)

    def own_copy(self, request: Request) -> Request:
        """Return a copy of a request for this model, with greedy sampling."""
        own = copy(request)
        own.sampling_params = GREEDY
        return own

    def _forget_all_but(self, request_ids: set[str]) -> None:
        """Forget the progress of all other requests. Unfinished requests outside this step lose a few good drafts."""
        known = self._num_computed_tokens
        self._num_computed_tokens = {name: known[name] for name in request_ids & known.keys()}

    def _share(self, scheduled: ScheduledRequest, sampled: Sequence[int]) -> ScheduledRequest:
        """Return how much of a request to compute: up to the sampled token, or as far as the target got."""
        request = self.own_copy(scheduled.request.followed_by(sampled))
        # This cache lags the target's after a pause, and is ahead of it after a preemption.
        known = self._num_computed_tokens.get(request.request_id, scheduled.num_computed_tokens)
        first = min(scheduled.num_computed_tokens, known)
        end = request.num_tokens if sampled else scheduled.num_computed_tokens + scheduled.num_scheduled_tokens
        return ScheduledRequest(request, first, end - first, scheduled.block_ids, needs_token=False)

    def _draft(self, shares: list[ScheduledRequest], limits: Mapping[str, int]) -> dict[str, list[int]]:
        """Run passes until every request has its drafts. A request with unusable logits gets no further drafts."""
        drafts: dict[str, list[int]] = {}
        while shares:
            guessed = self.runner.execute_model(shares).sampled_token_ids
            unfinished = []
            for share in shares:
                request = share.request
                if request.request_id in guessed:
                    drafts.setdefault(request.request_id, []).extend(guessed[request.request_id])
                    if len(drafts[request.request_id]) < limits[request.request_id]:
                        request.all_token_ids += guessed[request.request_id]
                        unfinished.append(
                            replace(share, num_computed_tokens=request.num_tokens - 1, num_scheduled_tokens=1)
                        )
            shares = unfinished
        return drafts
