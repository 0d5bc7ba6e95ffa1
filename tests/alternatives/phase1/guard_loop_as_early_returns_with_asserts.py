"""Guard loop as early returns with asserts."""

from mini_vllm.core.interfaces import ChunkPolicy, KVCacheManager, Preemption, RequestQueue
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import SchedulerOutput
from solutions.phase1_scheduler_step import _admit_waiting


def _serve_running(running, waiting, scheduler_output, kv, preemption, chunks):
    from collections import deque

    unserved = deque(running)
    ok = True
    while unserved:
        assert scheduler_output.token_budget >= 0
        request = unserved.popleft()
        if scheduler_output.token_budget == 0:
            return ok
        if request.status != RequestStatus.RUNNING:
            continue
        wanted = chunks.num_new_tokens(request, request.num_computed_tokens, scheduler_output.token_budget)
        if wanted < 1:
            continue
        held = kv.allocate_slots(request, wanted) is not None
        if not held:
            ok = False
            held = preemption.make_room(request, wanted, running, waiting, scheduler_output, kv)
        if held:
            scheduler_output.num_scheduled_tokens[request.request_id] = wanted
            scheduler_output.token_budget -= wanted
        elif request.status == RequestStatus.PREEMPTED:
            return ok
    return ok


def schedule_step(
    running: list[Request],
    waiting: RequestQueue,
    *,
    max_num_seqs: int,
    max_num_batched_tokens: int,
    kv: KVCacheManager,
    preemption: Preemption,
    chunks: ChunkPolicy,
) -> SchedulerOutput:
    """Plan one step: schedule the running requests in order, then admit waiting ones.

    Requests that are admitted move from `waiting` to `running`. `num_computed_tokens` of a request is
    set to its prefix hit when it is admitted, and otherwise left alone.
    """
    scheduler_output = SchedulerOutput(token_budget=max_num_batched_tokens)
    memory_sufficed = _serve_running(running, waiting, scheduler_output, kv, preemption, chunks)
    if memory_sufficed:
        _admit_waiting(running, waiting, scheduler_output, max_num_seqs, kv, chunks)
    return scheduler_output
