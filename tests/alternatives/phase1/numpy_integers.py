"""Everything that is counted is a numpy integer."""

import numpy as np

from mini_vllm.core.interfaces import ChunkPolicy, KVCacheManager, Preemption, RequestQueue
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import SchedulerOutput


def clamp(num_new: int, budget: int, threshold: int) -> int:
    cut = np.minimum(num_new, threshold) if threshold > 0 else np.int64(num_new)
    return np.clip(np.minimum(cut, budget), 0, None)


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
    scheduler_output = SchedulerOutput(np.int64(max_num_batched_tokens))
    refused = np.False_
    for request in list(running):
        if not scheduler_output.token_budget:
            break
        if request.status != RequestStatus.RUNNING:
            continue
        wanted = np.int64(chunks.num_new_tokens(request, request.num_computed_tokens, scheduler_output.token_budget))
        if wanted == 0:
            continue
        if kv.allocate_slots(request, wanted) is None:
            refused = np.True_
            if not preemption.make_room(request, wanted, running, waiting, scheduler_output, kv):
                if request.status == RequestStatus.PREEMPTED:  # type: ignore[comparison-overlap]
                    break
                continue
        scheduler_output.num_scheduled_tokens[request.request_id] = wanted
        scheduler_output.token_budget -= wanted
    while not refused and len(waiting) and scheduler_output.token_budget and len(running) < max_num_seqs:
        request = waiting.peek_request()
        hits = kv.get_computed_blocks(request)
        num_hit = np.int64(len(hits)) * kv.block_size
        wanted = np.int64(chunks.num_new_tokens(request, num_hit, scheduler_output.token_budget))
        if not wanted or not chunks.admits(request, hits, running, kv):
            break
        if kv.allocate_slots(request, wanted, hits) is None:
            break
        running.append(waiting.pop_request())
        request.status, request.num_computed_tokens = RequestStatus.RUNNING, num_hit
        scheduler_output.num_scheduled_tokens[request.request_id] = wanted
        scheduler_output.token_budget -= wanted
    return scheduler_output
