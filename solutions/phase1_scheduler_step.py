"""Phase 1, reference: one step of the scheduler.

vLLM: `Scheduler.schedule` and `Scheduler.update_from_output` in `v1/core/sched/scheduler.py`.
"""

from mini_vllm.core.interfaces import ChunkPolicy, KVCacheManager, Preemption, RequestQueue
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.core.stopping import check_stop


def clamp(num_new: int, budget: int, threshold: int) -> int:
    """Return how many of `num_new` tokens one request may compute in this step.

    The result is at most `threshold` (0 means no limit), at most what is left of `budget`, and never below 0.
    """
    # A threshold of 0 turns the limit off: `min` by itself would read it as "no tokens at all".
    if 0 < threshold < num_new:
        num_new = threshold
    return max(0, min(num_new, budget))


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

    Admitted requests move from `waiting` to `running`. Admission sets a request's `num_computed_tokens` to its
    prefix hit; otherwise the counter is left alone.
    """
    # The budget lives in the plan rather than in a local variable, because `make_room` returns tokens to it.
    scheduler_output = SchedulerOutput(token_budget=max_num_batched_tokens)
    memory_sufficed = _serve_running(running, waiting, scheduler_output, kv, preemption, chunks)
    # A refusal closes admission for the rest of the step, even if preemption later frees blocks. The running requests
    # need those blocks for their next tokens, and otherwise a victim would be readmitted right away.
    if memory_sufficed:
        _admit_waiting(running, waiting, scheduler_output, max_num_seqs, kv, chunks)
    return scheduler_output


def _serve_running(
    running: list[Request],
    waiting: RequestQueue,
    scheduler_output: SchedulerOutput,
    kv: KVCacheManager,
    preemption: Preemption,
    chunks: ChunkPolicy,
) -> bool:
    """Schedule the running requests in order; return False if memory for one of them was refused."""
    memory_sufficed = True
    # A copy, because `make_room` removes victims from `running` while the loop iterates over it.
    for request in tuple(running):
        if scheduler_output.token_budget == 0:
            break
        if scheduler_output.preempted and request.status is not RequestStatus.RUNNING:
            continue  # preempted earlier in this loop
        num_new_tokens = chunks.num_new_tokens(request, request.num_computed_tokens, scheduler_output.token_budget)
        if num_new_tokens == 0:
            continue
        # Memory first, plan second: a refused request leaves no trace in the plan or the budget.
        if kv.allocate_slots(request, num_new_tokens) is None:
            memory_sufficed = False
            if not preemption.make_room(request, num_new_tokens, running, waiting, scheduler_output, kv):
                if request.status is not RequestStatus.RUNNING:
                    # No `continue` here. Under FCFS, the request was the last one anyway; under PRIORITY, vLLM also
                    # ends the loop, and serves the later requests in the next step.
                    break  # the request was its own victim
                # Refused but still RUNNING: without phase 3, no request is preempted. A later request may still have
                # room in its last block and not need a new one.
                continue
        scheduler_output.num_scheduled_tokens[request.request_id] = num_new_tokens
        scheduler_output.token_budget -= num_new_tokens
    return memory_sufficed


def _admit_waiting(
    running: list[Request],
    waiting: RequestQueue,
    scheduler_output: SchedulerOutput,
    max_num_seqs: int,
    kv: KVCacheManager,
    chunks: ChunkPolicy,
) -> None:
    """Admit waiting requests from the front of the queue until one of them cannot be admitted."""
    # Seats are counted in RUNNING, not in the plan: a running request that was skipped keeps its seat.
    while waiting and scheduler_output.token_budget > 0 and len(running) < max_num_seqs:
        # Peek first, pop last: a refused request must stay first in line, unchanged.
        request = waiting.peek_request()
        hit_blocks = kv.get_computed_blocks(request)
        num_hit_tokens = len(hit_blocks) * kv.block_size
        num_new_tokens = chunks.num_new_tokens(request, num_hit_tokens, scheduler_output.token_budget)
        if num_new_tokens == 0 or not chunks.admits(request, hit_blocks, running, kv):
            break
        if kv.allocate_slots(request, num_new_tokens, hit_blocks) is None:
            # Head-of-line blocking is intended: a stream of small requests must not starve a large one.
            break
        running.append(waiting.pop_request())
        request.admit(num_hit_tokens)
        scheduler_output.num_scheduled_tokens[request.request_id] = num_new_tokens
        scheduler_output.token_budget -= num_new_tokens


def update_from_output(
    scheduler_output: SchedulerOutput,
    sampled_token_ids: dict[str, list[int]],
    requests: dict[str, Request],
    running: list[Request],
    *,
    max_model_len: int,
    kv: KVCacheManager,
) -> dict[str, list[int]]:
    """Append the sampled tokens, finish the requests that stop, and free their blocks.

    Handles the requests in the order of the plan and skips those that are no longer in `requests`. Returns the tokens
    that were kept, keyed by request id; none of them comes after a stop.
    """
    kept: dict[str, list[int]] = {}
    finished: list[Request] = []
    for request_id in scheduler_output.num_scheduled_tokens:
        request = requests.get(request_id)
        new_token_ids = sampled_token_ids.get(request_id)
        # The request was aborted during the forward pass, or its chunk ended inside the prompt, so nothing was sampled.
        if request is None or not new_token_ids:
            continue
        # One by one, because each token may be the last: tokens after a stop are discarded.
        for num_kept, token_id in enumerate(new_token_ids, start=1):
            request.all_token_ids.append(token_id)
            if check_stop(request, max_model_len):
                new_token_ids = new_token_ids[:num_kept]
                finished.append(request)
                # Freed immediately rather than at the end of the step, so that blocks return to the pool in the plan's
                # order.
                kv.free(request, request.num_computed_tokens)
                break
        kept[request_id] = new_token_ids
    # In place, because the scheduler holds this very list; in one pass, because every `remove` would search the list
    # again.
    if finished:
        running[:] = [request for request in running if not request.is_finished]
    return kept
