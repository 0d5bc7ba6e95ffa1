"""Make_room with for else and asserts."""

from mini_vllm.core.request import RequestStatus
from mini_vllm.core.step import Preempted
from solutions.phase3_preemption import choose_victim, preempt


class RecomputePreemption:
    """Preemption by recomputation: a victim starts again from its first token, or from its prefix hit."""

    def __init__(self, policy):
        assert policy in ("fcfs", "priority")
        self._policy = policy
        self.num_evictions = 0

    def make_room(self, request, num_new_tokens, running, waiting, scheduler_output, kv):
        """Preempt running requests until `request` holds slots for `num_new_tokens` more tokens.

        Victims move from `running` to `waiting` and are recorded in `scheduler_output.preempted`. A victim that was
        scheduled in this step leaves the plan, and its tokens return to `scheduler_output.token_budget`.
        Return True if `request` holds its slots, False if it was its own last victim.
        """
        for _ in range(len(running) + 1):
            if kv.allocate_slots(request=request, num_new_tokens=num_new_tokens) is not None:
                return True
            victim = choose_victim(running, self._policy)
            self.num_evictions += 1
            planned = scheduler_output.num_scheduled_tokens
            tokens = planned.get(victim.request_id, 0)
            planned.pop(victim.request_id, None)
            scheduler_output.preempted.append(Preempted(victim.request_id, request.request_id, tokens))
            scheduler_output.token_budget = scheduler_output.token_budget + tokens
            running.remove(victim)
            preempt(victim, waiting, kv)
            if request.status is RequestStatus.PREEMPTED:
                return False
        raise AssertionError
