"""The seam of phase 7, which plans drafts: guesses at tokens before they are sampled."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from mini_vllm.core.interfaces import SelectLogitsRows
from mini_vllm.core.request import Request


class Speculation(Protocol):
    """Phase 7: the scheduler's part of speculative decoding."""

    def num_lookahead_tokens(self, request: Request) -> int:
        """Return how many slots a request needs in addition to those of its scheduled tokens."""

    def usable_hit_blocks(self, hit_blocks: list[int]) -> list[int]:
        """Return the blocks of a prefix hit that the drafter can also use."""

    def schedule_drafts(self, request: Request) -> list[int]:
        """Return the request's scheduled drafts and clear `spec_token_ids`; its counter has already advanced."""

    def roll_back(self, request: Request, num_draft_tokens: int, num_sampled_tokens: int) -> None:
        """Subtract rejected drafts from the request's counters."""


class ProposeByLookup(Protocol):
    """Phase 7: proposes drafts from the request's text so far."""

    def __call__(
        self, token_ids: list[int], num_speculative_tokens: int, prompt_lookup_min: int, prompt_lookup_max: int
    ) -> list[int]: ...


class AcceptDrafts(Protocol):
    """Phase 7: decides which of a step's sampled tokens are kept."""

    def __call__(self, draft_token_ids: Sequence[int], sampled_token_ids: Sequence[int]) -> list[int]: ...


class RejectionSample(Protocol):
    """Phase 7: decides which randomly drawn drafts are kept, and draws a token for the first rejected one."""

    def __call__(
        self, draft_token_ids: Sequence[int], draft_probs: Any, target_probs: Any, draws: Sequence[tuple[float, float]]
    ) -> list[int]:
        """`draft_probs` and `target_probs` are tensors [k, vocab] and [k + 1, vocab]; only the runner imports torch."""


@dataclass(frozen=True, slots=True)
class SpeculationFunctions:
    """Phase 7 as the scheduler, the proposer and the runner use it.

    `make_scheduling` takes the maximum number of drafts per request, and whether the drafter has a KV cache.
    """

    make_scheduling: Callable[[int, bool], Speculation]
    propose_by_lookup: ProposeByLookup
    select_logits_rows: SelectLogitsRows
    accept_drafts: AcceptDrafts
    rejection_sample: RejectionSample
