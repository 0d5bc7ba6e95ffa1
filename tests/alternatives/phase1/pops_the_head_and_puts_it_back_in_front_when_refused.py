"""Pops the head and puts it back in front when refused."""

from mini_vllm.core.interfaces import ChunkPolicy, KVCacheManager, Preemption, RequestQueue
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import SchedulerOutput
from solutions.phase1_scheduler_step import _serve_running


def _admit_waiting(
    running: list[Request],
    waiting: RequestQueue,
    scheduler_output: SchedulerOutput,
    max_num_seqs: int,
    kv: KVCacheManager,
    chunks: ChunkPolicy,
) -> None:
    while waiting and scheduler_output.token_budget > 0 and len(running) < max_num_seqs:
        request = waiting.pop_request()
        hit_blocks = kv.get_computed_blocks(request)
        num_hit_tokens = len(hit_blocks) * kv.block_size
        num_new_tokens = chunks.num_new_tokens(request, num_hit_tokens, scheduler_output.token_budget)
        if (
            num_new_tokens == 0
            or not chunks.admits(request, hit_blocks, running, kv)
            or kv.allocate_slots(request, num_new_tokens, hit_blocks) is None
        ):
            waiting.prepend_request(request)
            break
        running.append(request)
        request.status = RequestStatus.RUNNING
        request.num_computed_tokens = num_hit_tokens
        scheduler_output.num_scheduled_tokens[request.request_id] = num_new_tokens
        scheduler_output.token_budget -= num_new_tokens


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
