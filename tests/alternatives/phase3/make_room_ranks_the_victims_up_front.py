"""Make room ranks the victims up front."""

from mini_vllm.config import Policy
from mini_vllm.core.interfaces import KVCacheManager, RequestQueue
from mini_vllm.core.request import Request
from mini_vllm.core.step import Preempted, SchedulerOutput
from solutions.phase3_preemption import preempt


class RecomputePreemption:
    """Preemption by recomputation: a victim starts again from its first token, or from its prefix hit."""

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
        """Preempt running requests until `request` holds slots for `num_new_tokens` more tokens.

        Victims move from `running` to `waiting` and are recorded in `scheduler_output.preempted`. A victim that was
        scheduled in this step leaves the plan, and its tokens return to `scheduler_output.token_budget`.
        Return True if `request` holds its slots, False if it was its own last victim.
        """
        order = list(reversed(running))
        if self.policy == "priority":
            order = sorted(running, key=lambda r: (r.priority, r.arrival_time), reverse=True)
        for victim in order:
            if kv.allocate_slots(request, num_new_tokens) is not None:
                return True
            running.remove(victim)
            preempt(victim, waiting, kv)
            num_returned = scheduler_output.num_scheduled_tokens.pop(victim.request_id, 0)
            scheduler_output.token_budget += num_returned
            scheduler_output.preempted.append(Preempted(victim.request_id, request.request_id, num_returned))
            if victim is request:
                return False
        return kv.allocate_slots(request, num_new_tokens) is not None
