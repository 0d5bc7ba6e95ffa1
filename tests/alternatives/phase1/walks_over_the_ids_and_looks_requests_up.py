"""Walks over the ids and looks requests up."""

from mini_vllm.core.interfaces import ChunkPolicy, KVCacheManager, Preemption, RequestQueue
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import SchedulerOutput
from solutions.phase1_scheduler_step import _admit_waiting


def _serve_running(running, waiting, scheduler_output, kv, preemption, chunks):
    by_id = {r.request_id: r for r in running}
    refusals = []
    for rid in list(by_id):
        request = by_id[rid]
        if scheduler_output.token_budget <= 0:
            break
        if all(r is not request for r in running):
            continue
        n = chunks.num_new_tokens(request, request.num_computed_tokens, scheduler_output.token_budget)
        if n <= 0:
            continue
        if kv.allocate_slots(request, n, ()) is None:
            refusals.append(rid)
            ok = preemption.make_room(request, n, running, waiting, scheduler_output, kv)
            if not ok and request.status is not RequestStatus.RUNNING:
                return False
            if not ok:
                continue
        scheduler_output.num_scheduled_tokens[rid] = n
        scheduler_output.token_budget -= n
    return not refusals


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
