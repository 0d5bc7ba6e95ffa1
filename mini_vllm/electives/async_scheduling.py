"""The seam of phase 8, which plans a step before the previous step's tokens are known."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from mini_vllm.core.request import Request
from mini_vllm.core.step import ScheduledRequest


class AsyncScheduling(Protocol):
    """Phase 8: the counters for planning a step before the previous step's tokens are known."""

    def is_surely_over(self, request: Request) -> bool:
        """Return whether the step in flight reaches the request's `max_tokens`, whatever token it samples."""

    def take_placeholders(self, request: Request, num_draft_tokens: int) -> None:
        """Count placeholders for a step's output tokens if the step samples; its tokens already count as computed."""

    def fill_placeholders(self, request: Request, num_tokens: int) -> None:
        """Subtract the placeholders of tokens that have arrived."""


class CorrectShare(Protocol):
    """Phase 8: corrects a request's share in the runner once the previous step is done."""

    def __call__(
        self, scheduled: ScheduledRequest, num_rejected_tokens: int, draft_token_ids: Sequence[int]
    ) -> ScheduledRequest: ...


@dataclass(frozen=True, slots=True)
class AsyncFunctions:
    """Phase 8 as the scheduler and the runner use it. `make_scheduling` takes the maximum number of drafts per
    request."""

    make_scheduling: Callable[[int], AsyncScheduling]
    correct_share: CorrectShare
