"""Admission with a flag and try finally."""

from mini_vllm.core.interfaces import ChunkPolicy, KVCacheManager, Preemption, RequestQueue
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import SchedulerOutput
from solutions.phase1_scheduler_step import _serve_running


def _admit_waiting(running, waiting, scheduler_output, max_num_seqs, kv, chunks):
    going = True
    while going:
        going = False
        if len(waiting) and len(running) < max_num_seqs and scheduler_output.token_budget:
            head = waiting.peek_request()
            hits = kv.get_computed_blocks(head)
            n = chunks.num_new_tokens(head, len(hits) * kv.block_size, scheduler_output.token_budget)
            if n and chunks.admits(head, hits, list(running), kv):
                if kv.allocate_slots(head, n, list(hits), 0) is not None:
                    going = True
                    assert waiting.pop_request() is head
                    head.num_computed_tokens, head.status = len(hits) * kv.block_size, RequestStatus.RUNNING
                    running.append(head)
                    scheduler_output.num_scheduled_tokens[head.request_id] = n
                    scheduler_output.token_budget -= n


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
