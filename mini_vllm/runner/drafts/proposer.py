"""What proposes drafts: one seam, and the proposer that needs no model."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from mini_vllm.config import SpeculativeConfig
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.electives.speculation import ProposeByLookup

FREE_ROWS = 9  # measured with the embedded model on a CPU; a GPU has many more


class Proposer(Protocol):
    """Guesses how the texts of a batch continue.

    `draft_probs` are the tensors [drafts, vocab] that the last drafts were drawn from, for requests whose drafts were
    drawn at random.
    """

    @property
    def draft_probs(self) -> Mapping[str, Any]: ...

    def cost_of_a_draft(self, num_requests: int) -> float:
        """Return the time to propose and verify one for each of so many requests, as a share of a step without."""
        ...

    def propose(
        self,
        batch: Sequence[ScheduledRequest],
        sampled_token_ids: Mapping[str, Sequence[int]],
        num_drafts: Mapping[str, int],
    ) -> dict[str, list[int]]:
        """Return drafts by request id, to follow the sampled tokens of a batch that was just computed.

        A request gets at most `num_drafts[request_id]`, none if it is not in `num_drafts`.
        """
        ...


def cost_of_a_row(num_requests: int) -> float:
    """Return what one row more for each of so many requests adds to a step, as a share of it.

    Half of the time of a step with `FREE_ROWS` rows goes to what its rows share: plans, operators, reading the weights.
    """
    return num_requests / (num_requests + FREE_ROWS)


class PromptLookup:
    """Looks up the newest tokens in the request's own text. (vLLM: `NgramProposer`.)"""

    def __init__(self, config: SpeculativeConfig, look_up: ProposeByLookup) -> None:
        self.config = config
        self.look_up = look_up
        self.draft_probs: dict[str, Any] = {}

    def cost_of_a_draft(self, num_requests: int) -> float:
        """Return the cost of verifying one; looking it up costs nothing beside that."""
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
