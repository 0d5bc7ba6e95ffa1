"""Plans each step of a request before the previous step's results arrive, using phase 8's counting methods.

The engine uses `electives/tokens_ahead.py`; `Pipeline` does the same for one request, without KV blocks.
"""

from collections import deque
from dataclasses import dataclass

from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.electives.async_scheduling import AsyncScheduling


@dataclass(frozen=True, slots=True)
class InFlight:
    """A step that is being computed: its drafts, and whether it samples."""

    num_drafts: int
    samples: bool


class Pipeline:
    """One request between scheduler and runner, planned and updated with the counters that phase 8 keeps."""

    def __init__(self, scheduling: AsyncScheduling, request: Request) -> None:
        self.scheduling = scheduling
        self.request = request
        self.in_flight: deque[InFlight] = deque()
        self.next_token = 0  # the first sampled token has id 0

    @property
    def is_done(self) -> bool:
        return self.request.num_output_tokens >= self.request.sampling_params.max_tokens

    def plan(self, budget: int) -> int:
        """Plan a step of at most `budget` tokens; return how many tokens it has."""
        request = self.request
        num_wanted = request.num_tokens + request.num_tokens_ahead - request.num_computed_tokens
        if request.status is not RequestStatus.RUNNING:
            num_wanted = request.num_tokens
        elif self.scheduling.is_surely_over(request):
            num_wanted = 0
        num_new = max(0, min(num_wanted, budget))
        if num_new == 0:
            self.in_flight.append(InFlight(0, samples=False))
            return 0
        if request.status is not RequestStatus.RUNNING:
            request.admit(0)
        request.advance(num_new)
        num_known = request.num_tokens + request.num_output_placeholders
        num_drafts = max(0, request.num_computed_tokens - num_known)
        request.spec_token_ids = []
        self.scheduling.take_placeholders(request, num_drafts)
        self.in_flight.append(InFlight(num_drafts, request.num_computed_tokens == num_known + num_drafts))
        return num_new

    def update(self, max_accepted: int) -> None:
        """Apply the results of the oldest step in flight, with at most this many correct drafts."""
        step, request = self.in_flight.popleft(), self.request
        if not step.samples:
            return
        num_accepted = min(max_accepted, step.num_drafts)
        num_rejected = step.num_drafts - num_accepted
        if request.num_computed_tokens > 0:  # otherwise, it was preempted in flight
            request.take_back(num_rejected)
        request.num_output_placeholders -= num_rejected
        request.all_token_ids += range(self.next_token, self.next_token + num_accepted + 1)
        self.next_token += num_accepted + 1
        self.scheduling.fill_placeholders(request, num_accepted + 1)
