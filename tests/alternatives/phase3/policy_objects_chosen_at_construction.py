"""Policy objects chosen at construction."""

from mini_vllm.core.step import Preempted
from solutions.phase3_preemption import choose_victim, preempt


class RecomputePreemption:
    """Preemption by recomputation: a victim starts again from its first token, or from its prefix hit."""

    def __init__(self, policy):
        self.policy = policy
        self.choose = {
            "fcfs": lambda running: running[-1],
            "priority": lambda running: choose_victim(running, "priority"),
        }[policy]
        self.log = []

    def make_room(self, request, num_new_tokens, running, waiting, scheduler_output, kv):
        """Preempt running requests until `request` holds slots for `num_new_tokens` more tokens.

        Victims move from `running` to `waiting` and are recorded in `scheduler_output.preempted`. A victim that was
        scheduled in this step leaves the plan, and its tokens return to `scheduler_output.token_budget`.
        Return True if `request` holds its slots, False if it was its own last victim.
        """
        blocks = kv.allocate_slots(request, num_new_tokens)
        while blocks is None:
            victim = self.choose(running)
            self.log.append((victim.request_id, request.request_id))
            print("preempting", self.log[-1])
            running.remove(victim)
            preempt(victim, waiting, kv)
            returned = scheduler_output.num_scheduled_tokens.pop(victim.request_id, None) or 0
            scheduler_output.token_budget += returned
            scheduler_output.preempted.append(Preempted(victim.request_id, request.request_id, returned))
            if victim is request:
                break
            blocks = kv.allocate_slots(request, num_new_tokens)
        return blocks is not None
