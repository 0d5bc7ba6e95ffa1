"""Serves urgent requests before normal ones."""

from collections.abc import Sequence

from mini_vllm.core.request import Request
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy, StepView
from mini_vllm_labs.policies.joint_order import can_run


class TwoClasses(SchedulingPolicy):
    """Serves requests of service level `urgent` first, and reserves a share of each step's budget for them.

    While an urgent request is unfinished, a step has at most `urgent_batch_limit` requests (None: no limit) and the
    others sit out, because small batches keep steps short. With `preempts`, a waiting urgent request displaces the
    normal request that came last. ("SLO-Aware Scheduling for Large Language Model Inferences", arXiv 2504.14966, limits
    the batch and preempts for urgent requests.)

    Raises `ValueError` unless the share is at least 0 and less than 1, and the limit is at least 1.
    """

    def __init__(
        self,
        *,
        urgent: str = "urgent",
        reserved_share: float = 0.25,
        urgent_batch_limit: int | None = None,
        preempts: bool = False,
    ) -> None:
        if not 0 <= reserved_share < 1:
            raise ValueError(f"reserved_share must be at least 0 and less than 1, got {reserved_share}")
        if urgent_batch_limit is not None and urgent_batch_limit < 1:
            raise ValueError(f"urgent_batch_limit must be at least 1, got {urgent_batch_limit}")
        self.urgent, self.reserved_share = urgent, reserved_share
        self.urgent_batch_limit, self.preempts = urgent_batch_limit, preempts
        self._num_reserved = 0
        self._has_urgent = False
        self._sit_out: set[str] = set()

    def is_urgent(self, request: Request) -> bool:
        return request.service_level.name == self.urgent

    def start_step(self, step: StepView) -> None:
        self._num_reserved = int(self.reserved_share * step.max_num_batched_tokens)
        num_urgent = sum(map(self.is_urgent, step.running)) + sum(map(self.is_urgent, filter(can_run, step.waiting)))
        self._has_urgent, self._sit_out = num_urgent > 0, set()
        if self.urgent_batch_limit is not None and num_urgent:
            normal = [request.request_id for request in step.running if not self.is_urgent(request)]
            self._sit_out = set(normal[max(0, self.urgent_batch_limit - num_urgent) :])

    def rank(self, request: Request) -> bool:
        return not self.is_urgent(request)

    def serve_order(self, running: list[Request]) -> list[Request]:
        return sorted(running, key=self.rank)

    def victims(self, running: list[Request]) -> list[Request]:
        return sorted(running, key=self.rank)[::-1]

    def to_preempt(self, step: StepView) -> Sequence[Request]:
        if not self.preempts:
            return ()
        num_urgent = sum(map(self.is_urgent, filter(can_run, step.waiting)))
        num_needed = num_urgent - (step.max_num_seqs - len(step.running))
        normal = [request for request in step.running[::-1] if not self.is_urgent(request)]
        return normal[: max(0, num_needed)]

    def token_limit(self, request: Request, token_budget: int) -> int:
        if request.request_id in self._sit_out:
            return 0
        return token_budget if self.is_urgent(request) else max(0, token_budget - self._num_reserved)

    def admits(self, request: Request, running: Sequence[Request]) -> bool:
        limit = self.urgent_batch_limit
        return limit is None or not self._has_urgent or self.is_urgent(request) or len(running) < limit
