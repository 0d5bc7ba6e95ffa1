"""Phase 7, reference: draft tokens, from the guess to the tokens that are kept.

vLLM: `NgramProposer` in `v1/spec_decode/ngram_proposer.py`, the drafts in `Scheduler.schedule` and
`update_from_output`, and `RejectionSampler` in `v1/sample/rejection_sampler.py`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mini_vllm.core.request import Request, RequestStatus
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
    for length in range(min(prompt_lookup_max, len(token_ids) - 1), prompt_lookup_min - 1, -1):
        newest = token_ids[-length:]
        # The last possible start is one position before that of the newest tokens themselves, so at least one token
        # follows.
        starts = range(len(token_ids) - length)
        # `index` compares tokens in C: a loop over all starts would cost more than a small model's forward pass.
        start = -1
        while (start := _next_index(token_ids, newest[0], start + 1, starts.stop)) >= 0:
            if token_ids[start : start + length] == newest:
                return token_ids[start + length : start + length + num_speculative_tokens]
    return []


def _next_index(token_ids: list[int], token_id: int, start: int, stop: int) -> int:
    try:
        return token_ids.index(token_id, start, stop)
    except ValueError:
        return -1


class SpeculativeScheduling:
    """Tracks drafts for the scheduler: they count as scheduled tokens, and as computed tokens until they are
    rejected."""

    def __init__(self, num_speculative_tokens: int, drafter_has_kv_cache: bool) -> None:
        self.num_speculative_tokens = num_speculative_tokens
        self.drafter_has_kv_cache = drafter_has_kv_cache

    def num_lookahead_tokens(self, request: Request) -> int:
        """Return the number of tokens, beyond the scheduled ones, that the request needs slots for.

        A drafter with its own KV cache writes the K and V of its guesses into the slots that follow. A request
        that is being admitted gets its first drafts after this step, and slots for them in the next one.
        """
        is_running = request.status is RequestStatus.RUNNING
        return self.num_speculative_tokens if self.drafter_has_kv_cache and is_running else 0

    def usable_hit_blocks(self, hit_blocks: list[int]) -> list[int]:
        """Return the hit blocks that the drafter can use: all but the last if it has a KV cache."""
        # The drafter lags by one step, and may not have computed the end of that block.
        return hit_blocks[:-1] if self.drafter_has_kv_cache else hit_blocks

    def schedule_drafts(self, request: Request) -> list[int]:
        """Take the request's drafts; return those that were scheduled. The request's counter has already advanced."""
        # The budget, a threshold or the model's last position may have cut off the last tokens.
        num_scheduled = request.num_computed_tokens - request.num_tokens - request.num_output_placeholders
        drafts = request.spec_token_ids[: max(0, num_scheduled)]
        request.spec_token_ids = []
        return drafts

    def roll_back(self, request: Request, num_draft_tokens: int, num_sampled_tokens: int) -> None:
        """Subtract rejected drafts from the request's counters. The last sampled token is never a draft."""
        num_rejected = num_draft_tokens - (num_sampled_tokens - 1)
        # A request that has since been preempted no longer has any computed tokens.
        if request.num_computed_tokens > 0:
            request.take_back(num_rejected)
        if request.num_output_placeholders > 0:
            request.num_output_placeholders -= num_rejected


def select_logits_rows(batch: Sequence[ScheduledRequest]) -> list[int]:
    """Return the rows whose logits are needed [S]: for each request with `needs_token`, one per token to sample.

    These are the rows of its last known token and of its drafts, which are its last tokens in the batch.
    """
    rows: list[int] = []
    end = 0
    for scheduled in batch:
        end += scheduled.num_scheduled_tokens
        if scheduled.needs_token:
            rows += range(end - 1 - len(scheduled.draft_token_ids), end)
    return rows


def accept_drafts(draft_token_ids: Sequence[int], sampled_token_ids: Sequence[int]) -> list[int]:
    """Return the tokens that a step generated for one request: from one up to the number of drafts plus one.

    `sampled_token_ids[i]` is the model's sample after the known tokens and the first i drafts. The sample counts if all
    the drafts before it were right.
    """
    kept: list[int] = []
    for index, token_id in enumerate(sampled_token_ids):
        kept.append(token_id)
        # Tokens sampled after a wrong draft continue a text that is not the real answer.
        if index == len(draft_token_ids) or draft_token_ids[index] != token_id:
            break
    return kept


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
    for row, token_id in enumerate(draft_token_ids):
        keep, choose = draws[row]
        if keep * draft_probs[row, token_id] >= target_probs[row, token_id]:
            surplus = (target_probs[row] - draft_probs[row]).clamp(min=0)
            # If the two distributions are equal, there may be no surplus left after rounding.
            weights = surplus if surplus.any() else target_probs[row]
            return [*draft_token_ids[:row], _token_at(choose, weights)]
    return [*draft_token_ids, _token_at(draws[len(draft_token_ids)][1], target_probs[len(draft_token_ids)])]


def _token_at(draw: float, weights: "Tensor") -> int:
    """Return the first token at which the running sum of the weights exceeds `draw` times their total."""
    sums = weights.double().cumsum(dim=-1)
    return int((sums > draw * sums[-1]).int().argmax())
