"""The seam of phase 8, which plans a step before the tokens of the previous one are known."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from mini_vllm.core.request import Request
from mini_vllm.core.step import ScheduledRequest


class AsyncScheduling(Protocol):
    """Phase 8: how a step is planned before the tokens of the previous one are known."""

    def is_surely_over(self, request: Request) -> bool:
        """Return whether the step in flight will reach the request's `max_tokens`, whatever it samples."""

    def take_placeholders(self, request: Request, num_draft_tokens: int) -> None:
        """Count the output tokens that a step will bring if it samples; its tokens already count as computed."""

    def fill_placeholders(self, request: Request, num_tokens: int) -> None:
        """Give back the placeholders of tokens that have arrived."""


class CorrectShare(Protocol):
    """Phase 8: how the runner corrects a plan once the previous step is done."""

    def __call__(
        self, scheduled: ScheduledRequest, num_rejected_tokens: int, draft_token_ids: Sequence[int]
    ) -> ScheduledRequest: ...


@dataclass(frozen=True, slots=True)
class AsyncFunctions:
    """Phase 8 as scheduler and runner use it. `make_scheduling` takes the maximum number of drafts per request."""

    make_scheduling: Callable[[int], AsyncScheduling]
    correct_share: CorrectShare
