"""vLLM's own second policy."""

from operator import attrgetter
from typing import Any

from mini_vllm.core.policy.scheduling_policy import SchedulingPolicy
from mini_vllm.core.request import Request

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
