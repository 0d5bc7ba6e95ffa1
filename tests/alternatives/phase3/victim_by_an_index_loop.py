"""Compares the running requests one by one instead of using max; preempt sets its fields in another order."""

from mini_vllm.config import Policy
from mini_vllm.core.interfaces import KVCacheManager, RequestQueue
from mini_vllm.core.request import Request, RequestStatus


def choose_victim(running: list[Request], policy: Policy) -> Request:
    index = len(running) - 1
    if policy == "priority":
        index = 0
        for other in range(1, len(running)):
            one, two = running[index], running[other]
            if two.priority > one.priority or (two.priority == one.priority and two.arrival_time > one.arrival_time):
                index = other
    return running[index]


def preempt(request: Request, waiting: RequestQueue, kv: KVCacheManager) -> None:
    request.num_preemptions = request.num_preemptions + 1
    kv.free(request, request.num_computed_tokens)
    request.num_computed_tokens, request.status = 0, RequestStatus.PREEMPTED
    waiting.prepend_request(request)
