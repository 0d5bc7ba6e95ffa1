"""Generates answers with each step planned before the previous step's results, using phase 8's counters.

The engine's version is `electives/tokens_ahead.py`; `Pipeline` does the same for one request, without memory.
"""

from collections import deque
from dataclasses import dataclass
from random import Random

from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.electives.async_scheduling import AsyncScheduling
from mini_vllm_labs.grading.labtest.moments import varied
from mini_vllm_labs.grading.labtest.phase8.cases import request_with

KEPT = ("spec_token_ids", "num_output_placeholders", "sampling_params", "num_cached_tokens")
MAX_TURNS = 120


@dataclass(frozen=True, slots=True)
class InFlight:
    """A step in flight: its number of drafts, and whether it samples."""

    num_drafts: int
    samples: bool


class Pipeline:
    """Simulates scheduler and runner for one request with phase 8's counters."""

    def __init__(self, scheduling: AsyncScheduling, request: Request) -> None:
        self.scheduling = scheduling
        self.request = request
        self.in_flight: deque[InFlight] = deque()
        self.next_token = 0  # sampled tokens have ids 0, 1, ...

    @property
    def is_done(self) -> bool:
        return self.request.num_output_tokens >= self.request.sampling_params.max_tokens

    def plan(self, budget: int) -> int:
        """Plan a step of at most `budget` tokens; return its number of tokens."""
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
        """Apply the results of the oldest step in flight and accept at most `max_accepted` of its drafts."""
        step, request = self.in_flight.popleft(), self.request
        if not step.samples:
            return
        num_accepted = min(max_accepted, step.num_drafts)
        num_rejected = step.num_drafts - num_accepted
        if request.num_computed_tokens > 0:  # otherwise it was preempted in flight
            request.take_back(num_rejected)
        request.num_output_placeholders -= num_rejected
        request.all_token_ids += range(self.next_token, self.next_token + num_accepted + 1)
        self.next_token += num_accepted + 1
        self.scheduling.fill_placeholders(request, num_accepted + 1)


def random_answers(scheduling: AsyncScheduling, most: int, rng: Random) -> None:
    """Run three requests with at most `most` drafts to their ends, then three others with the same names."""
    is_tight, preempts = rng.random() < 0.5, rng.random() < 0.4
    for _ in range(2):
        pipelines = [Pipeline(scheduling, random_request(name, rng)) for name in "ABC"]
        for _ in range(MAX_TURNS):
            for pipeline in rng.sample(pipelines, len(pipelines)):
                if pipeline.is_done:
                    continue
                budget, num_accepted = rng.choice([0, 1, 2, 3, 5]) if is_tight else 40, rng.randint(0, most)
                if preempts and rng.random() < 0.1 and pipeline.request.status is RequestStatus.RUNNING:
                    pipeline.request.preempt()
                    budget = 0
                pipeline.plan(budget)
                if len(pipeline.in_flight) > 1:
                    pipeline.update(num_accepted)


def random_request(name: str, rng: Random) -> Request:
    num_prompt, max_tokens = rng.randint(1, 12), rng.randint(1, 9)
    request = request_with(num_prompt, computed=0, max_tokens=max_tokens, name=name, status=RequestStatus.WAITING)
    return varied(request, rng, keep=KEPT)
