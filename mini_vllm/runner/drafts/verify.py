"""Which drafts are accepted: those that the model has sampled itself, or by rejection sampling."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from mini_vllm.core.electives import SpeculationFunctions
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.runner.logits_processors import probabilities
from mini_vllm.runner.paged_model_runner import draw_twice


class AcceptanceOfDrafts:
    """A `Verify` by the functions of phase 7."""

    def __init__(self, functions: SpeculationFunctions) -> None:
        self.functions = functions

    def __call__(
        self,
        rows: Sequence[tuple[ScheduledRequest, int]],
        logits: Tensor,
        sampled_token_ids: Mapping[str, Sequence[int]],
    ) -> dict[str, list[int]]:
        """Return the tokens of the requests with drafts: the accepted ones, and one of the model's own."""
        kept = {}
        for index, (one, num_drafts_before) in enumerate(rows):
            if one.draft_token_ids and num_drafts_before == 0:
                last = index + len(one.draft_token_ids)
                sampled = sampled_token_ids[one.request.request_id]
                kept[one.request.request_id] = self._accept(one, logits[index : last + 1], sampled)
        return kept

    def _accept(self, scheduled: ScheduledRequest, logits: Tensor, sampled: Sequence[int]) -> list[int]:
        drafts, request = scheduled.draft_token_ids, scheduled.request
        if scheduled.draft_probs is None:
            return self.functions.accept_drafts(drafts, sampled)
        draws = [draw_twice(request, place)[::-1] for place in range(len(drafts) + 1)]
        target_probs = probabilities(logits, request.sampling_params)
        return self.functions.rejection_sample(drafts, scheduled.draft_probs, target_probs, draws)
