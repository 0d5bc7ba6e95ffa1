"""vLLM's second policy, and priorities that improve with waiting time."""

from operator import attrgetter
from typing import Any

from mini_vllm.core.request import Request
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy
from mini_vllm_labs.policies.joint_order import worst_first
from mini_vllm_labs.policies.settings import require_positive

URGENCY = attrgetter("priority", "arrival_time", "request_id")


class Priority(SchedulingPolicy):
    """Serves the lowest `priority` first, then the earliest arrival. Preempts the request that comes last in that
    order.

    vLLM: `--scheduling-policy priority`, `PriorityRequestQueue` in `v1/core/sched/request_queue.py`. If priorities and
    arrival times are equal, the policy preempts the request that came first. When memory runs short, two such requests
    can keep taking each other's blocks forever. This is vLLM's rule; its clock rarely produces ties.
    """

    uses_priority = True

    def rank(self, request: Request) -> Any:
        return URGENCY(request)

    def victims(self, running: list[Request]) -> list[Request]:
        # A reversed sort keeps tied requests in their original order, because vLLM preempts the first of them.
        return sorted(running, key=lambda request: (request.priority, request.arrival_time), reverse=True)


class Ageing(SchedulingPolicy):
    """Serves the lowest priority first; every `seconds_per_level` seconds after arrival, a request's priority drops by
    one level.

    A request can be overtaken only by requests that arrive within `seconds_per_level` seconds per level of difference,
    so no request starves. This is the classic remedy from operating systems, made continuous. vLLM has no ageing: its
    `priority` never changes by itself. Raises `ValueError` unless `seconds_per_level` is greater than 0.
    """

    uses_priority = True

    def __init__(self, seconds_per_level: float = 5.0) -> None:
        require_positive(seconds_per_level=seconds_per_level)
        self.seconds_per_level = seconds_per_level

    def rank(self, request: Request) -> float:
        # All requests age at the same rate, so the order never changes and `now` is not needed.
        return request.priority + request.arrival_time / self.seconds_per_level

    def victims(self, running: list[Request]) -> list[Request]:
        return worst_first(running, self.rank)
