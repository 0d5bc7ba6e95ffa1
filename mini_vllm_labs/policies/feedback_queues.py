"""FastServe's multi-level feedback queue."""

from collections.abc import Sequence

from mini_vllm.core.request import Request
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy, StepView
from mini_vllm_labs.policies.joint_order import outranked, worst_first
from mini_vllm_labs.policies.settings import require_positive


class FeedbackQueues(SchedulingPolicy):
    """Favours short outputs without knowing output lengths: a request that uses up its level's quantum drops a level.

    From "Fast Distributed Inference Serving for Large Language Models" (arXiv 2305.05920). A request stays on level n
    for `quantum * 2**n` output tokens. A long prompt skips the levels whose output would take no longer to compute than
    the prompt (`prefill_rate`: prompt tokens computed in the time of one output token). A request that has waited
    `starvation_seconds` returns to the top level. A waiting request on a better level displaces a running request on a
    worse level. FastServe keeps the K and V of preempted requests in host memory; here they are recomputed. Raises
    `ValueError` unless every parameter is greater than 0.
    """

    rank_is_fixed = False

    def __init__(
        self, *, quantum: int = 32, num_levels: int = 6, prefill_rate: int = 64, starvation_seconds: float = 10.0
    ) -> None:
        require_positive(quantum=quantum, num_levels=num_levels, prefill_rate=prefill_rate)
        require_positive(starvation_seconds=starvation_seconds)
        self.quantum, self.num_levels, self.prefill_rate = quantum, num_levels, prefill_rate
        self.starvation_seconds = starvation_seconds
        self._now = 0.0
        self._last_served: dict[str, float] = {}
        self._promoted_at: dict[str, int] = {}  # how many output tokens the request had when it was promoted

    def start_step(self, step: StepView) -> None:
        self._now = step.now
        living = {request.request_id for request in (*step.running, *step.waiting)}
        self._last_served = {name: self._last_served.get(name, step.now) for name in living}
        self._promoted_at = {name: count for name, count in self._promoted_at.items() if name in living}
        for request in step.waiting:
            if step.now - self._last_served[request.request_id] >= self.starvation_seconds:
                self._promoted_at[request.request_id] = request.num_output_tokens
                self._last_served[request.request_id] = step.now

    def level(self, request: Request) -> int:
        """Return a request's level; 0 is the best."""
        promoted_at = self._promoted_at.get(request.request_id)
        if promoted_at is None:
            served = request.num_output_tokens + request.num_prompt_tokens // self.prefill_rate
        else:
            served = request.num_output_tokens - promoted_at
        level, limit = 0, self.quantum
        while served >= limit and level < self.num_levels - 1:
            level, limit = level + 1, limit + self.quantum * 2 ** (level + 1)
        return level

    def rank(self, request: Request) -> tuple[int, float]:
        return self.level(request), request.arrival_time

    def victims(self, running: list[Request]) -> list[Request]:
        return worst_first(running, self.rank)

    def to_preempt(self, step: StepView) -> Sequence[Request]:
        return outranked(step, self.level)

    def scheduled(self, shares: Sequence[tuple[Request, int]]) -> None:
        for request, _ in shares:
            self._last_served[request.request_id] = self._now
