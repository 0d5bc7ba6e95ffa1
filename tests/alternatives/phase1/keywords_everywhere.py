"""The step is made by keyword and the plan merged at the end of each grant."""

from mini_vllm.core.interfaces import ChunkPolicy, KVCacheManager, Preemption, RequestQueue
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import SchedulerOutput
from solutions.phase1_scheduler_step import _admit_waiting


def _serve_running(running, waiting, scheduler_output, kv, preemption, chunks):
    refused = 0
    for request in [*running]:
        if not scheduler_output.token_budget:
            break
        if request.status is RequestStatus.PREEMPTED:
            continue
        budget = scheduler_output.token_budget
        num = chunks.num_new_tokens(
            request=request, num_computed_tokens=request.num_computed_tokens, token_budget=budget
        )
        if num == 0:
            continue
        if kv.allocate_slots(request=request, num_new_tokens=num) is None:
            refused += 1
            room = preemption.make_room(
                request=request,
                num_new_tokens=num,
                running=running,
                waiting=waiting,
                scheduler_output=scheduler_output,
                kv=kv,
            )
            if not room and request.status is RequestStatus.PREEMPTED:
                break
            if not room:
                continue
        scheduler_output.num_scheduled_tokens |= {request.request_id: num}
        scheduler_output.token_budget -= num
    return refused == 0


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
