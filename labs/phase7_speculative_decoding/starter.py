"""Phase 7: draft tokens, from the guess to the tokens that are kept.

An elective: phases 1 to 6 do not need it. A draft is a guess at a token that has not been sampled yet.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mini_vllm.core.request import Request
from mini_vllm.core.step import ScheduledRequest

if TYPE_CHECKING:
    from torch import Tensor


def propose_by_lookup(
    token_ids: list[int], num_speculative_tokens: int, prompt_lookup_min: int, prompt_lookup_max: int
) -> list[int]:
    """Return up to `num_speculative_tokens` tokens that followed an earlier occurrence of the newest tokens.

    Looks for the longest run of newest tokens (from `prompt_lookup_max` down to `prompt_lookup_min` tokens) that also
    occurs earlier; if it occurs several times, the first occurrence counts. The result is empty if no run occurs
    earlier.
    """
    raise NotImplementedError("Phase 7, task 1: propose_by_lookup")


class SpeculativeScheduling:
    """Tracks drafts for the scheduler: they count as scheduled tokens, and as computed tokens until they are
    rejected."""

    def __init__(self, num_speculative_tokens: int, drafter_has_kv_cache: bool) -> None:
        """Store both arguments: the maximum number of drafts per request, and whether the drafter computes its own K
        and V."""
        raise NotImplementedError("Phase 7, tasks 2 and 3: store the settings")

    def num_lookahead_tokens(self, request: Request) -> int:
        """Return the number of tokens, beyond the scheduled ones, that the request needs slots for.

        A drafter with its own KV cache writes the K and V of its guesses into the slots that follow. A request
        that is being admitted gets its first drafts after this step, and slots for them in the next one.
        """
        raise NotImplementedError("Phase 7, task 3: num_lookahead_tokens")

    def usable_hit_blocks(self, hit_blocks: list[int]) -> list[int]:
        """Return the hit blocks that the drafter can use: all but the last if it has a KV cache."""
        raise NotImplementedError("Phase 7, task 3: usable_hit_blocks")

    def schedule_drafts(self, request: Request) -> list[int]:
        """Take the request's drafts; return those that were scheduled. The request's counter has already advanced."""
        raise NotImplementedError("Phase 7, task 2: schedule_drafts")

    def roll_back(self, request: Request, num_draft_tokens: int, num_sampled_tokens: int) -> None:
        """Subtract rejected drafts from the request's counters. The last sampled token is never a draft."""
        raise NotImplementedError("Phase 7, task 2: roll_back")


def select_logits_rows(batch: Sequence[ScheduledRequest]) -> list[int]:
    """Return the rows whose logits are needed [S]: for each request with `needs_token`, one per token to sample.

    These are the rows of its last known token and of its drafts, which are its last tokens in the batch.
    """
    raise NotImplementedError("Phase 7, task 4: select_logits_rows")


def accept_drafts(draft_token_ids: Sequence[int], sampled_token_ids: Sequence[int]) -> list[int]:
    """Return the tokens that a step generated for one request: from one up to the number of drafts plus one.

    `sampled_token_ids[i]` is the model's sample after the known tokens and the first i drafts. The sample counts if all
    the drafts before it were right.
    """
    raise NotImplementedError("Phase 7, task 5: accept_drafts")


def rejection_sample(
    draft_token_ids: Sequence[int],
    draft_probs: "Tensor",
    target_probs: "Tensor",
    draws: Sequence[tuple[float, float]],
) -> list[int]:
    """Return the tokens of one request whose k drafts were drawn from `draft_probs` [k, vocab].

    Draft i is kept with probability min(1, target / draft). The first rejected draft ends the list, and is replaced by
    a token drawn from the target's surplus over the drafter. If all k drafts are kept, a token from the last row of
    `target_probs` [k + 1, vocab] follows. This way, every token has the target's distribution (Leviathan 2023, Chen
    2023). `draws[i]` has two random numbers for row i, 0 <= draw < 1: the first decides whether to keep the draft, the
    second which token to draw.
    """
    raise NotImplementedError("Phase 7, task 6: rejection_sample")
