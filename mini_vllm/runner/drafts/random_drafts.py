"""Draws drafts at random, just as the target samples its tokens, so that likely tokens are often proposed."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from mini_vllm.core.request import Request
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.runner.drafts.draft_model import DraftModel
from mini_vllm.runner.logits_processors import draw_token, probabilities
from mini_vllm.runner.paged_model_runner import PagedModelRunner


class RandomDraftRunner(PagedModelRunner):
    """The runner of a draft model, which stores the distribution of each draft. Greedy requests get greedy drafts."""

    # for each draft in the current step, its distribution [vocab], keyed by request id
    drawn_from: dict[str, list[Tensor]]

    def sample(self, rows: Sequence[tuple[ScheduledRequest, int]], logits: Tensor) -> list[int]:
        """Return a draft for each row of logits [S, vocab]."""
        return [self._draft(one, logits[[index]]) for index, (one, _) in enumerate(rows)]

    def _draft(self, scheduled: ScheduledRequest, logits: Tensor) -> int:
        request = scheduled.request
        if not request.sampling_params.temperature:
            return int(logits.argmax())
        probs = probabilities(logits, request.sampling_params)[0]
        self.drawn_from.setdefault(request.request_id, []).append(probs)
        return draw_token(probs, request)


class RandomDraftModel(DraftModel):
    """A `DraftModel` that draws drafts with each request's settings; the target uses rejection sampling.

    Random drafts are accepted more often than greedy ones. The text differs from the text without drafts, but has the
    same distribution.
    """

    def __init__(self, runner: RandomDraftRunner, block_size: int, longest: int) -> None:
        super().__init__(runner, block_size, longest)
        self.random_runner = runner

    def propose(
        self,
        batch: Sequence[ScheduledRequest],
        sampled_token_ids: Mapping[str, Sequence[int]],
        num_drafts: Mapping[str, int],
    ) -> dict[str, list[int]]:
        """Return drafts keyed by request id, and store their distributions in `draft_probs`."""
        self.random_runner.drawn_from = {}
        drafts = super().propose(batch, sampled_token_ids, num_drafts)
        self.draft_probs = {name: torch.stack(rows) for name, rows in self.random_runner.drawn_from.items()}
        return drafts

    def own_copy(self, request: Request) -> Request:
        """Return a copy of a request whose draws are independent of the target's."""
        own = super().own_copy(request)
        own.sampling_params, own.seed = request.sampling_params, -1 - request.seed
        return own
