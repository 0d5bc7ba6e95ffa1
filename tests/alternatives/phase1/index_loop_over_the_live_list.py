"""Walks the running list with an index and looks again after every eviction, instead of copying the list."""

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
    scheduler_output = SchedulerOutput(token_budget=max_num_batched_tokens)
    was_refused = False
    index = 0
    while index < len(running) and scheduler_output.token_budget > 0:
        request = running[index]
        num_new_tokens = chunks.num_new_tokens(request, request.num_computed_tokens, scheduler_output.token_budget)
        has_slots = num_new_tokens > 0
        if has_slots and kv.allocate_slots(request, num_new_tokens) is None:
            was_refused = True
            has_slots = preemption.make_room(request, num_new_tokens, running, waiting, scheduler_output, kv)
            if request not in running:
                break
            index = running.index(request)  # victims may have left in front of it
        if has_slots:
            scheduler_output.num_scheduled_tokens[request.request_id] = num_new_tokens
            scheduler_output.token_budget -= num_new_tokens
        index += 1
    if was_refused:
        return scheduler_output
    for _ in range(len(waiting)):
        if scheduler_output.token_budget == 0 or len(running) >= max_num_seqs:
            break
        request = waiting.peek_request()
        hit_blocks = kv.get_computed_blocks(request)
        num_hit_tokens = len(hit_blocks) * kv.block_size
        num_new_tokens = chunks.num_new_tokens(request, num_hit_tokens, scheduler_output.token_budget)
        if (
            num_new_tokens == 0
            or not chunks.admits(request, hit_blocks, running, kv)
            or kv.allocate_slots(request, num_new_tokens, hit_blocks) is None
        ):
            break
        waiting.pop_request()
        request.num_computed_tokens = num_hit_tokens
        request.status = RequestStatus.RUNNING
        running += [request]
        scheduler_output.token_budget -= num_new_tokens
        scheduler_output.num_scheduled_tokens[request.request_id] = num_new_tokens
    return scheduler_output
