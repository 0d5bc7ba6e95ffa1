"""The interface of draft proposers, and the proposer that needs no model."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from mini_vllm.config import SpeculativeConfig
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.electives.speculation import ProposeByLookup

FREE_ROWS = 9  # measured with the embedded model on a CPU; this number is far higher on a GPU


class Proposer(Protocol):
    """Predicts how the texts of a batch continue.

    `draft_probs` holds, for requests with random drafts, the tensors [drafts, vocab] from which the last drafts were
    drawn.
    """

    @property
    def draft_probs(self) -> Mapping[str, Any]: ...

    def cost_of_a_draft(self, num_requests: int) -> float:
        """Return the time to propose and verify one draft per request, relative to a step without drafts."""
        ...

    def propose(
        self,
        batch: Sequence[ScheduledRequest],
        sampled_token_ids: Mapping[str, Sequence[int]],
        num_drafts: Mapping[str, int],
    ) -> dict[str, list[int]]:
        """Return drafts, keyed by request id, that continue the tokens just sampled for the batch.

        A request gets at most `num_drafts[request_id]` drafts, or none if it is not in `num_drafts`.
        """
        ...


def cost_of_a_row(num_requests: int) -> float:
    """Return the cost of one extra row per request, relative to a step without these rows.

    In a step with `FREE_ROWS` rows, half of the time goes to work that the rows share: planning, launching operators,
    reading the weights.
    """
    return num_requests / (num_requests + FREE_ROWS)


class PromptLookup:
    """Looks up the newest tokens in the request's text. (vLLM: `NgramProposer`.)"""

    def __init__(self, config: SpeculativeConfig, look_up: ProposeByLookup) -> None:
        self.config = config
        self.look_up = look_up
        self.draft_probs: dict[str, Any] = {}

    def cost_of_a_draft(self, num_requests: int) -> float:
        """Return the cost of verifying a draft; the lookup costs almost nothing."""
        return cost_of_a_row(num_requests)

    def propose(
        self,
        batch: Sequence[ScheduledRequest],
        sampled_token_ids: Mapping[str, Sequence[int]],
        num_drafts: Mapping[str, int],
    ) -> dict[str, list[int]]:
        shortest, longest = self.config.prompt_lookup_min, self.config.prompt_lookup_max
        drafts = {}
        for scheduled in batch:
            request_id = scheduled.request.request_id
            if request_id in num_drafts:
                text = [*scheduled.request.all_token_ids, *sampled_token_ids[request_id]]
                drafts[request_id] = self.look_up(text, num_drafts[request_id], shortest, longest)
        return drafts
