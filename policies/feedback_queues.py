"""FastServe's queues: a request's level falls with what it has generated."""

from collections.abc import Sequence
from dataclasses import dataclass

from mini_vllm.core.policy.scheduling_policy import SchedulingPolicy, StepView
from mini_vllm.core.request import Request
from policies.joint_order import outranked, worst_first
from policies.settings import require_positive


@dataclass(slots=True)
class Place:
    """Where a request stands: its level, the tokens it has generated there, and when it last was computed."""

    level: int
    num_tokens: int
    since: float


class FeedbackQueues(SchedulingPolicy):
    """A multi-level feedback queue that needs no lengths: after its quantum of tokens a request falls by one level.

    Level 0 comes first, with a quantum of `quantum` output tokens; each next level has twice as many. A request joins
    the first level whose quantum covers its prompt, `prompt_tokens_per_token` of which cost as much as one output
    token. One that is not computed for `starvation_seconds` goes to level 0. A waiting request takes the slot of a
    running one of a later level. Raises `ValueError` for a parameter that is not over 0.

    FastServe ("Fast Distributed Inference Serving for Large Language Models", arXiv 2305.05920): skip-join, demotion
    and promotion are here. Its quanta are times, and it swaps keys and values to the host; here they are recomputed.
    """

    rank_is_fixed = False

    def __init__(
        self,
        quantum: int = 4,
        num_levels: int = 8,
        prompt_tokens_per_token: int = 64,
        starvation_seconds: float = 10.0,
    ) -> None:
        require_positive(
            quantum=quantum,
            num_levels=num_levels,
            prompt_tokens_per_token=prompt_tokens_per_token,
            starvation_seconds=starvation_seconds,
        )
        self.quantum, self.last_level, self.starvation_seconds = quantum, num_levels - 1, starvation_seconds
        self.prompt_tokens_per_token = prompt_tokens_per_token
        self.now = 0.0
        self._places: dict[str, Place] = {}

    def start_step(self, step: StepView) -> None:
        self.now = step.now
        self._places = {r.request_id: self._place(r) for r in (*step.running, *step.waiting)}
        for place in self._places.values():
            if step.now - place.since >= self.starvation_seconds:
                place.level, place.num_tokens, place.since = 0, 0, step.now

    def rank(self, request: Request) -> int:
        return self._place(request).level

    def to_preempt(self, step: StepView) -> Sequence[Request]:
        return outranked(step, self.rank)

    def serve_order(self, running: list[Request]) -> list[Request]:
        return sorted(running, key=self.rank)

    def victims(self, running: list[Request]) -> list[Request]:
        return worst_first(running, self.rank)

    def scheduled(self, shares: Sequence[tuple[Request, int]]) -> None:
        for request, _ in shares:
            self._place(request).since = self.now

    def sampled(self, request: Request, num_tokens: int) -> None:
        place = self._place(request)
        place.num_tokens += num_tokens
        if place.num_tokens >= self.quantum << place.level and place.level < self.last_level:
            place.level, place.num_tokens = place.level + 1, 0

    def _place(self, request: Request) -> Place:
        place = self._places.get(request.request_id)
        if place is None:
            level, cost = 0, request.num_prompt_tokens / self.prompt_tokens_per_token
            while level < self.last_level and self.quantum << level < cost:
                level += 1
            place = self._places[request.request_id] = Place(level, 0, request.arrival_time)
        return place
