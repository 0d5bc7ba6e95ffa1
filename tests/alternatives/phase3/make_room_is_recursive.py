"""make_room evicts one victim and calls itself for the rest."""

from mini_vllm.config import Policy
from mini_vllm.core.interfaces import KVCacheManager, RequestQueue
from mini_vllm.core.request import Request
from mini_vllm.core.step import Preempted, SchedulerOutput
from solutions.phase3_preemption import choose_victim, preempt


class RecomputePreemption:
    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def make_room(
        self,
        request: Request,
        num_new_tokens: int,
        running: list[Request],
        waiting: RequestQueue,
        scheduler_output: SchedulerOutput,
        kv: KVCacheManager,
    ) -> bool:
        if kv.allocate_slots(request, num_new_tokens) is not None:
            return True
        victim = choose_victim(running, self._policy)
        del running[running.index(victim)]
        returned = 0
        if victim.request_id in scheduler_output.num_scheduled_tokens:
            returned = scheduler_output.num_scheduled_tokens.pop(victim.request_id)
        scheduler_output.token_budget += returned
        preempt(victim, waiting, kv)
        scheduler_output.preempted += [Preempted(victim.request_id, request.request_id, returned)]
        return victim is not request and self.make_room(request, num_new_tokens, running, waiting, scheduler_output, kv)
