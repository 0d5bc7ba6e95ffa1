"""Phase 8, reference: planning a step while the previous one is still being computed.

vLLM: `AsyncScheduler` in `v1/core/sched/async_scheduler.py`, and `_update_states` and `_prepare_input_ids` in
`v1/worker/gpu_model_runner.py`.
"""

from collections.abc import Sequence
from dataclasses import replace

from mini_vllm.core.request import Request
from mini_vllm.core.step import ScheduledRequest


class PlaceholderScheduling:
    """Counts placeholders: output tokens that are scheduled to be sampled but not known yet."""

    def __init__(self, num_speculative_tokens: int) -> None:
        self.num_speculative_tokens = num_speculative_tokens

    def is_surely_over(self, request: Request) -> bool:
        """Return whether the step in flight will reach the request's `max_tokens`, whatever it samples."""
        # The computed tokens (including those in flight) minus the placeholders equal the known tokens minus one. So
        # this equals the known tokens plus one: the step in flight produces at least one, even if all its drafts are
        # rejected.
        num_at_least = request.num_computed_tokens + 2 - request.num_output_placeholders
        most = request.num_prompt_tokens + request.sampling_params.max_tokens
        return request.num_output_placeholders > 0 and num_at_least >= most

    def take_placeholders(self, request: Request, num_draft_tokens: int) -> None:
        """Count the output tokens that a step will produce if it samples; its tokens already count as computed.

        The next step then verifies stand-ins (-1) for drafts that are not known yet.
        """
        num_known = request.num_tokens + request.num_output_placeholders
        if request.num_computed_tokens == num_known + num_draft_tokens:
            request.num_output_placeholders += 1 + num_draft_tokens
            request.spec_token_ids = [-1] * self.num_speculative_tokens

    def fill_placeholders(self, request: Request, num_tokens: int) -> None:
        """Remove the placeholders of tokens that have arrived."""
        request.num_output_placeholders -= num_tokens


def correct_share(
    scheduled: ScheduledRequest, num_rejected_tokens: int, draft_token_ids: Sequence[int]
) -> ScheduledRequest:
    """Return a request's corrected share of a step that was planned ahead; change nothing.

    The plan assumed that all drafts of the previous step would be accepted, so the share begins `num_rejected_tokens`
    earlier. Stand-ins become `draft_token_ids`, the drafts proposed since then; if the plan has fewer positions, only
    the first drafts are used, and if it has more, the share is shortened.
    """
    drafts = list(draft_token_ids[: len(scheduled.draft_token_ids)])
    num_without_drafts = scheduled.num_scheduled_tokens - len(scheduled.draft_token_ids)
    return replace(
        scheduled,
        num_computed_tokens=scheduled.num_computed_tokens - num_rejected_tokens,
        num_scheduled_tokens=num_without_drafts + len(drafts),
        draft_token_ids=drafts,
    )
