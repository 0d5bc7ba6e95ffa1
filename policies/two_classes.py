"""Two classes: a share of each step is kept for urgent requests."""

from collections.abc import Sequence
from math import ceil

from mini_vllm.core.policy.scheduling_policy import SchedulingPolicy, StepView
from mini_vllm.core.request import Request
from policies.joint_order import outranked, worst_first


class TwoClasses(SchedulingPolicy):
    """Urgent requests, those whose service level is called `urgent`, before all others, which are normal.

    Normal requests leave `reserved_share` of the budget unused for urgent ones, less what running urgent ones have
    taken. While an urgent request runs or can get a slot, a step computes at most `urgent_batch_limit` requests (None:
    no limit): normal ones sit out, and keep their blocks. With `preempts` an urgent request takes the slot of a normal
    one. Only a step that would be empty goes beyond these limits. Without chunked prefill a normal prompt longer than
    its share waits for such a step. Raises `ValueError` for a share outside [0, 1) or a limit below 1.

    Of no paper: a plain rule to compare with those that adapt each step to deadlines, as "Niyama: Breaking the Silos of
    LLM Inference Serving" (arXiv 2503.22562) does with the sizes of chunks.
    """

    def __init__(
        self,
        urgent: str = "urgent",
        reserved_share: float = 0.25,
        urgent_batch_limit: int | None = None,
        preempts: bool = False,
    ) -> None:
        if not 0 <= reserved_share < 1:
            raise ValueError(f"reserved_share must be at least 0 and below 1, got {reserved_share!r}")
        if urgent_batch_limit is not None and urgent_batch_limit < 1:
            raise ValueError(f"urgent_batch_limit must be None or at least 1, got {urgent_batch_limit!r}")
        self.urgent, self.reserved_share, self.preempts = urgent, reserved_share, preempts
        self.urgent_batch_limit = urgent_batch_limit
        self.budget = self.reserved = 0
        self._unused: int | None = None  # of the reserved tokens; None until all running urgent requests are served
        self._places: list[int] | None = None  # how many urgent and how many normal requests may still be computed

    def start_step(self, step: StepView) -> None:
        self.budget = step.max_num_batched_tokens
        self.reserved = min(ceil(self.budget * self.reserved_share), self.budget - 1)
        self._unused = self._places = None
        ranks = [self.rank(request) for request in step.running]
        num_waiting = [self.rank(request) for request in step.waiting].count(0)
        num_urgent = ranks.count(0) + min(num_waiting, step.max_num_seqs - len(ranks))
        if self.urgent_batch_limit is not None and num_urgent:
            self._places = [self.urgent_batch_limit, max(0, self.urgent_batch_limit - num_urgent)]

    def rank(self, request: Request) -> int:
        return 0 if request.service_level.name == self.urgent else 1

    def to_preempt(self, step: StepView) -> Sequence[Request]:
        return outranked(step, self.rank) if self.preempts else ()

    def serve_order(self, running: list[Request]) -> list[Request]:
        return sorted(running, key=self.rank)

    def victims(self, running: list[Request]) -> list[Request]:
        return worst_first(running, self.rank)

    def token_limit(self, request: Request, token_budget: int) -> int:
        rank = self.rank(request)
        if self._places is not None:
            if self._places[rank] == 0:
                return 0
            self._places[rank] -= 1
        if rank == 0:
            return token_budget
        if self._unused is None:  # the first normal request of a step
            self._unused = max(0, self.reserved - (self.budget - token_budget))
        return max(0, token_budget - self._unused)
