"""Phase 8: planning a step while the one before it is still being computed.

The scheduler calls the class, the runner calls the function.
"""

from collections.abc import Sequence
from dataclasses import replace

from mini_vllm.core.request import Request
from mini_vllm.core.step import ScheduledRequest


class PlaceholderScheduling:
    """Output tokens that are scheduled to be sampled, but not known yet, are counted as placeholders."""

    def __init__(self, num_speculative_tokens: int) -> None:
        """Keep the number of drafts that every request gets, 0 without drafts. All else is in the request."""
        raise NotImplementedError("Phase 8, task 1: keep the number of drafts")

    def is_surely_over(self, request: Request) -> bool:
        """Return whether the step in flight will reach the request's `max_tokens`, whatever it samples."""
        raise NotImplementedError("Phase 8, task 2: is_surely_over")

    def take_placeholders(self, request: Request, num_draft_tokens: int) -> None:
        """Count the output tokens that a step will bring if it samples; its tokens are counted as computed already.

        The next step then verifies stand-ins for drafts that are not known yet: -1.
        """
        raise NotImplementedError("Phase 8, task 1: take_placeholders")

    def fill_placeholders(self, request: Request, num_tokens: int) -> None:
        """Give back the placeholders of tokens that have arrived."""
        raise NotImplementedError("Phase 8, task 1: fill_placeholders")


def correct_share(
    scheduled: ScheduledRequest, num_rejected_tokens: int, draft_token_ids: Sequence[int]
) -> ScheduledRequest:
    """Return a request's share of a step that was planned ahead as it has to be computed, and change nothing.

    The plan took the drafts of the step before for accepted, so the share begins `num_rejected_tokens` earlier. Its
    stand-ins become `draft_token_ids`, the drafts that were proposed since: the first of them if the plan has fewer
    places, and a shorter share if it has more.
    """
    raise NotImplementedError("Phase 8, task 3: correct_share")
