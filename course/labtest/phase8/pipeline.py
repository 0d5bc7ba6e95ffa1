"""One request between scheduler and runner: what the engine does around your methods. Nothing here is to be filled in.

`core/tokens_ahead.py` is the engine's own; this is the same for one request without memory.
"""

from collections import deque
from dataclasses import dataclass

from mini_vllm.core.electives import AsyncScheduling
from mini_vllm.core.request import Request, RequestStatus


@dataclass(frozen=True, slots=True)
class InFlight:
    """A step that is being computed: its drafts, and whether it samples."""

    num_drafts: int
    samples: bool


class Pipeline:
    """Plans and updates one request by the counters that your methods keep."""

    def __init__(self, scheduling: AsyncScheduling, request: Request) -> None:
        self.scheduling = scheduling
        self.request = request
        self.in_flight: deque[InFlight] = deque()
        self.next_token = 0  # the first token that is sampled has id 0

    def plan(self, budget: int) -> tuple[int, int]:
        """Plan a step; return (tokens, drafts among them)."""
        request = self.request
        num_wanted = request.num_tokens + request.num_tokens_ahead - request.num_computed_tokens
        if request.status is not RequestStatus.RUNNING:
            num_wanted = request.num_tokens
        elif self.scheduling.is_surely_over(request):
            num_wanted = 0
        num_new = max(0, min(num_wanted, budget))
        if num_new == 0:
            self.in_flight.append(InFlight(0, samples=False))
            return 0, 0
        if request.status is not RequestStatus.RUNNING:
            request.admit(0)
        request.advance(num_new)
        num_known = request.num_tokens + request.num_output_placeholders
        num_drafts = max(0, request.num_computed_tokens - num_known)
        if request.spec_token_ids:
            request.spec_token_ids = []
        self.scheduling.take_placeholders(request, num_drafts)
        self.in_flight.append(InFlight(num_drafts, request.num_computed_tokens == num_known + num_drafts))
        return num_new, num_drafts

    def update(self, num_accepted: int) -> int:
        """Bring the results of the oldest step in flight; return how many tokens they are."""
        step, request = self.in_flight.popleft(), self.request
        if not step.samples:
            return 0
        num_rejected = step.num_drafts - num_accepted
        if request.num_computed_tokens > 0:
            request.take_back(num_rejected)
        if request.num_output_placeholders > 0:
            request.num_output_placeholders -= num_rejected
        for _ in range(num_accepted + 1):
            request.all_token_ids.append(self.next_token)
            self.next_token += 1
        self.scheduling.fill_placeholders(request, num_accepted + 1)
        return num_accepted + 1
