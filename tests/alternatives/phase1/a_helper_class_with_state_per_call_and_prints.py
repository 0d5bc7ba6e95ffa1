"""A helper class with state per call and prints."""

from mini_vllm.core.request import RequestStatus
from mini_vllm.core.step import SchedulerOutput


class _Planner:
    __slots__ = ("chunks", "kv", "refused", "running", "step", "stopped", "waiting")

    def __init__(self, running, waiting, budget, kv, chunks):
        self.step = SchedulerOutput(budget)
        self.kv = kv
        self.chunks = chunks
        self.running = running
        self.waiting = waiting
        self.refused = False

    def grant(self, request, n):
        print("grant", request.request_id, n)
        self.step.num_scheduled_tokens.update({request.request_id: n})
        self.step.token_budget = self.step.token_budget - n


def schedule_step(running, waiting, *, max_num_seqs, max_num_batched_tokens, kv, preemption, chunks):  # noqa: C901
    """Plan one step: schedule the running requests in order, then admit waiting ones.

    Requests that are admitted move from `waiting` to `running`. `num_computed_tokens` of a request is
    set to its prefix hit when it is admitted, and otherwise left alone.
    """
    planner = _Planner(running, waiting, max_num_batched_tokens, kv, chunks)
    scheduler_output = planner.step
    for request in running[:]:
        if scheduler_output.token_budget < 1:
            break
        if request not in running:
            continue
        n = chunks.num_new_tokens(request, request.num_computed_tokens, scheduler_output.token_budget)
        if not n:
            continue
        got = kv.allocate_slots(request, n)
        if got is None:
            planner.refused = True
            if preemption.make_room(request, n, running, waiting, scheduler_output, kv):
                planner.grant(request, n)
            elif request not in running:
                break
        else:
            planner.grant(request, n)
    if planner.refused:
        return scheduler_output
    while len(waiting) > 0:
        if len(running) >= max_num_seqs or scheduler_output.token_budget < 1:
            break
        head = waiting.peek_request()
        hits = kv.get_computed_blocks(head)
        computed = len(hits) * kv.block_size
        n = chunks.num_new_tokens(head, computed, scheduler_output.token_budget)
        if not n:
            break
        if not chunks.admits(head, hits, running, kv):
            break
        if kv.allocate_slots(head, n, hit_blocks=hits) is None:
            break
        waiting.pop_request()
        head.status = RequestStatus.RUNNING
        head.num_computed_tokens = computed
        running.append(head)
        planner.grant(head, n)
    return scheduler_output
