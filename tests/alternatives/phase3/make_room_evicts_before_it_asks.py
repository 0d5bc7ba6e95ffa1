"""make_room relies on the refusal that it was called for: evict first, then ask."""

from mini_vllm.config import Policy
from mini_vllm.core.interfaces import KVCacheManager, RequestQueue
from mini_vllm.core.request import Request
from mini_vllm.core.step import Preempted, SchedulerOutput
from solutions.phase3_preemption import choose_victim, preempt


class RecomputePreemption:
    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def make_room(
        self,
        request: Request,
        num_new_tokens: int,
        running: list[Request],
        waiting: RequestQueue,
        scheduler_output: SchedulerOutput,
        kv: KVCacheManager,
    ) -> bool:
        while True:
            victim = choose_victim(running, self.policy)
            running.remove(victim)
            preempt(victim, waiting, kv)
            num_returned = scheduler_output.num_scheduled_tokens.pop(victim.request_id, 0)
            scheduler_output.token_budget += num_returned
            scheduler_output.preempted.append(Preempted(victim.request_id, request.request_id, num_returned))
            if victim is request:
                return False
            if kv.allocate_slots(request, num_new_tokens) is not None:
                return True
