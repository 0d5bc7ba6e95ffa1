"""Phase 8: planning a step while the previous one is still being computed.

The scheduler calls the class, and the runner calls the function.
"""

from collections.abc import Sequence
from dataclasses import replace

from mini_vllm.core.request import Request
from mini_vllm.core.step import ScheduledRequest


class PlaceholderScheduling:
    """Counts placeholders: output tokens that are scheduled to be sampled but not known yet."""

    def __init__(self, num_speculative_tokens: int) -> None:
        """Store the number of drafts per request; 0 means that there are no drafts. Everything else is stored in the
        request."""
        raise NotImplementedError("Phase 8, task 1: store the number of drafts")

    def is_surely_over(self, request: Request) -> bool:
        """Return whether the step in flight will reach the request's `max_tokens`, whatever it samples."""
        raise NotImplementedError("Phase 8, task 2: is_surely_over")

    def take_placeholders(self, request: Request, num_draft_tokens: int) -> None:
        """Count the output tokens that a step will produce if it samples; its tokens already count as computed.

        The next step then verifies stand-ins (-1) for drafts that are not known yet.
        """
        raise NotImplementedError("Phase 8, task 1: take_placeholders")

    def fill_placeholders(self, request: Request, num_tokens: int) -> None:
        """Remove the placeholders of tokens that have arrived."""
        raise NotImplementedError("Phase 8, task 1: fill_placeholders")


def correct_share(
    scheduled: ScheduledRequest, num_rejected_tokens: int, draft_token_ids: Sequence[int]
) -> ScheduledRequest:
    """Return a request's corrected share of a step that was planned ahead; change nothing.

    The plan assumed that all drafts of the previous step would be accepted, so the share begins `num_rejected_tokens`
    earlier. Stand-ins become `draft_token_ids`, the drafts proposed since then; if the plan has fewer positions, only
    the first drafts are used, and if it has more, the share is shortened.
    """
    raise NotImplementedError("Phase 8, task 3: correct_share")
