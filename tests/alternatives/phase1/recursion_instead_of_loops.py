"""Serves the first of the running requests and calls itself for the others; the same for the waiting ones."""

from mini_vllm.core.interfaces import ChunkPolicy, KVCacheManager, Preemption, RequestQueue
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import SchedulerOutput


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
    scheduler_output = SchedulerOutput(max_num_batched_tokens)

    def enter(request: Request, n: int) -> None:
        scheduler_output.num_scheduled_tokens[request.request_id] = n
        scheduler_output.token_budget -= n

    def serve(line: tuple[Request, ...]) -> bool:
        """Return whether no request in the line was refused memory."""
        if not line or scheduler_output.token_budget == 0:
            return True
        request, others = line[0], line[1:]
        n = 0
        if request.status is RequestStatus.RUNNING:
            n = chunks.num_new_tokens(request, request.num_computed_tokens, scheduler_output.token_budget)
        if n == 0:
            return serve(others)
        if kv.allocate_slots(request, n) is not None:
            enter(request, n)
            return serve(others)
        if preemption.make_room(request, n, running, waiting, scheduler_output, kv):
            enter(request, n)
        elif request.status is not RequestStatus.RUNNING:
            return False
        serve(others)
        return False

    if serve(tuple(running)):
        admit(running, waiting, scheduler_output, max_num_seqs, kv, chunks)
    return scheduler_output


def admit(
    running: list[Request],
    waiting: RequestQueue,
    scheduler_output: SchedulerOutput,
    max_num_seqs: int,
    kv: KVCacheManager,
    chunks: ChunkPolicy,
) -> None:
    if not len(waiting) or len(running) >= max_num_seqs or scheduler_output.token_budget <= 0:
        return
    request = waiting.peek_request()
    hits = kv.get_computed_blocks(request)
    computed = len(hits) * kv.block_size
    n = chunks.num_new_tokens(request, computed, scheduler_output.token_budget)
    if n and chunks.admits(request, hits, running, kv) and kv.allocate_slots(request, n, hits) is not None:
        running.append(waiting.pop_request())
        request.status, request.num_computed_tokens = RequestStatus.RUNNING, computed
        scheduler_output.num_scheduled_tokens[request.request_id] = n
        scheduler_output.token_budget -= n
        admit(running, waiting, scheduler_output, max_num_seqs, kv, chunks)
