"""What proposes drafts: one seam, and the proposer that needs no model."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from mini_vllm.config import SpeculativeConfig
from mini_vllm.core.electives import ProposeByLookup
from mini_vllm.core.step import ScheduledRequest


class Proposer(Protocol):
    """Guesses how the texts of a batch continue.

    `cost_of_a_draft` is the time to propose and verify one, as a share of a step without drafts. `draft_probs` are the
    tensors [drafts, vocab] that the last drafts were drawn from, for requests whose drafts were drawn at random.
    """

    @property
    def cost_of_a_draft(self) -> float: ...
    @property
    def draft_probs(self) -> Mapping[str, Any]: ...

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


class PromptLookup:
    """Looks up the newest tokens in the request's own text. (vLLM: `NgramProposer`.)"""

    cost_of_a_draft = 0.1

    def __init__(self, config: SpeculativeConfig, look_up: ProposeByLookup) -> None:
        self.config = config
        self.look_up = look_up
        self.draft_probs: dict[str, Any] = {}

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
