"""What policies that add one rule to any other one have in common."""

from collections.abc import Sequence
from typing import Any

from mini_vllm.core.policy.scheduling_policy import SchedulingPolicy, StepView
from mini_vllm.core.request import Request


class Around(SchedulingPolicy):
    """Decides as `inner` does, by default first come, first served."""

    def __init__(self, inner: SchedulingPolicy | None = None) -> None:
        self.inner = inner or SchedulingPolicy()
        self.rank_is_fixed = self.inner.rank_is_fixed
        self.uses_priority = self.inner.uses_priority

    def start_step(self, step: StepView) -> None:
        self.inner.start_step(step)

    def rank(self, request: Request) -> Any:
        return self.inner.rank(request)

    def to_preempt(self, step: StepView) -> Sequence[Request]:
        return self.inner.to_preempt(step)

    def serve_order(self, running: list[Request]) -> list[Request]:
        return self.inner.serve_order(running)

    def victims(self, running: list[Request]) -> list[Request]:
        return self.inner.victims(running)

    def token_limit(self, request: Request, token_budget: int) -> int:
        return self.inner.token_limit(request, token_budget)

    def admits(self, request: Request, running: Sequence[Request]) -> bool:
        return self.inner.admits(request, running)

    def scheduled(self, shares: Sequence[tuple[Request, int]]) -> None:
        self.inner.scheduled(shares)

    def sampled(self, request: Request, num_tokens: int) -> None:
        self.inner.sampled(request, num_tokens)
