"""Sorts for the victim, counts in numpy integers, answers with numpy booleans, and leaves the loop by a flag."""

import numpy as np

from mini_vllm.config import Policy
from mini_vllm.core.interfaces import KVCacheManager, RequestQueue
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import Preempted, SchedulerOutput


def choose_victim(running: list[Request], policy: Policy) -> Request:
    if policy == "fcfs":
        return running[len(running) - 1]
    order = np.lexsort(([-other.arrival_time for other in running], [-other.priority for other in running]))
    return running[order[0]]


class RecomputePreemption:
    def __init__(self, policy: Policy) -> None:
        self.rule = {"policy": policy}

    def make_room(
        self,
        request: Request,
        num_new_tokens: int,
        running: list[Request],
        waiting: RequestQueue,
        scheduler_output: SchedulerOutput,
        kv: KVCacheManager,
    ) -> bool:
        holds = kv.allocate_slots(request, num_new_tokens) is not None
        while not holds and request.status == RequestStatus.RUNNING:
            victim = choose_victim(running, **self.rule)
            running[:] = [other for other in running if other is not victim]
            kv.free(victim, victim.num_computed_tokens)
            victim.status = RequestStatus.PREEMPTED
            victim.num_computed_tokens = np.int64(0)
            victim.num_preemptions += 1
            waiting.prepend_request(victim)
            returned = np.int64(scheduler_output.num_scheduled_tokens.pop(victim.request_id, 0))
            scheduler_output.token_budget += returned
            scheduler_output.preempted.append(
                Preempted(victim_id=victim.request_id, cause_id=request.request_id, num_tokens_returned=returned)
            )
            if victim is not request:
                holds = kv.allocate_slots(request, num_new_tokens) is not None
        return np.bool_(holds)
