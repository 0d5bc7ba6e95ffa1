"""vLLM's own second policy, and priorities that improve with waiting."""

from operator import attrgetter
from typing import Any

from mini_vllm.core.request import Request
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy
from mini_vllm_labs.policies.joint_order import worst_first
from mini_vllm_labs.policies.settings import require_positive

URGENCY = attrgetter("priority", "arrival_time", "request_id")


class Priority(SchedulingPolicy):
    """The lowest `priority` first, then the earliest. The last of that order is preempted.

    vLLM: `--scheduling-policy priority`, `PriorityRequestQueue` in `v1/core/sched/request_queue.py`.
    Of equal priorities and equal arrival times it preempts the one that came first; when memory is short, two such
    requests can take each other's blocks in turn for ever. The rule is vLLM's, whose clock hardly stamps two alike.
    """

    uses_priority = True

    def rank(self, request: Request) -> Any:
        return URGENCY(request)

    def victims(self, running: list[Request]) -> list[Request]:
        # Reversed, a sort still leaves equal requests in their order: vLLM preempts the first of them.
        return sorted(running, key=lambda request: (request.priority, request.arrival_time), reverse=True)


class Ageing(SchedulingPolicy):
    """The lowest priority first, where every `seconds_per_level` since arrival count as one level.

    A request is passed only by those that arrive within `seconds_per_level` for each level between them, so none
    starves: the classical remedy of operating systems, continuous here. (vLLM: none; its `priority` never changes by
    itself.) Raises `ValueError` unless `seconds_per_level` is over 0.
    """

    uses_priority = True

    def __init__(self, seconds_per_level: float = 5.0) -> None:
        require_positive(seconds_per_level=seconds_per_level)
        self.seconds_per_level = seconds_per_level

    def rank(self, request: Request) -> float:
        # All grow older alike: the order never changes, and `now` is not needed.
        return request.priority + request.arrival_time / self.seconds_per_level

    def victims(self, running: list[Request]) -> list[Request]:
        return worst_first(running, self.rank)
