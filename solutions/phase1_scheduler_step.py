"""Phase 1, reference: one step of the scheduler.

vLLM: `Scheduler.schedule` and `Scheduler.update_from_output` in `v1/core/sched/scheduler.py`.
"""

from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.core.stopping import check_stop
from mini_vllm.seams.interfaces import ChunkPolicy, KVCacheManager, Preemption, RequestQueue


def clamp(num_new: int, budget: int, threshold: int) -> int:
    """Return how many of `num_new` tokens one request may compute now.

    At most `threshold` (0 means no such limit), at most what is left of `budget`, never below 0.
    """
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
    """Plan one step: serve the running requests in order, then admit waiting ones.

    Requests that are admitted move from `waiting` to `running`. `num_computed_tokens` of a request is
    set to its prefix hit when it is admitted, and otherwise left alone.
    """
    scheduler_output = SchedulerOutput(token_budget=max_num_batched_tokens)
    everybody_got_memory = _serve_running(running, waiting, scheduler_output, kv, preemption, chunks)
    if everybody_got_memory:
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
    everybody_got_memory = True
    for request in tuple(running):
        if scheduler_output.token_budget == 0:
            break
        if request.status is not RequestStatus.RUNNING:
            continue  # it gave way to somebody earlier in this loop
        num_new_tokens = chunks.num_new_tokens(request, request.num_computed_tokens, scheduler_output.token_budget)
        if num_new_tokens == 0:
            continue
        if kv.allocate_slots(request, num_new_tokens) is None:
            everybody_got_memory = False
            if not preemption.make_room(request, num_new_tokens, running, waiting, scheduler_output, kv):
                if request.status is not RequestStatus.RUNNING:
                    break  # it was its own victim
                continue
        scheduler_output.num_scheduled_tokens[request.request_id] = num_new_tokens
        scheduler_output.token_budget -= num_new_tokens
    return everybody_got_memory


def _admit_waiting(
    running: list[Request],
    waiting: RequestQueue,
    scheduler_output: SchedulerOutput,
    max_num_seqs: int,
    kv: KVCacheManager,
    chunks: ChunkPolicy,
) -> None:
    while waiting and scheduler_output.token_budget > 0 and len(running) < max_num_seqs:
        request = waiting.peek_request()
        hit_blocks = kv.get_computed_blocks(request)
        num_hit_tokens = len(hit_blocks) * kv.block_size
        num_new_tokens = chunks.num_new_tokens(request, num_hit_tokens, scheduler_output.token_budget)
        if num_new_tokens == 0 or not chunks.admits(request, hit_blocks, running, kv):
            break
        if kv.allocate_slots(request, num_new_tokens, hit_blocks) is None:
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
    """Append the sampled tokens, end what is over, and free it.

    Goes through the requests in the order of the step. A request that is not in `requests` any more
    is passed over. Returns request id to the tokens that were kept: none after a stop.
    """
    kept: dict[str, list[int]] = {}
    finished: list[Request] = []
    for request_id in scheduler_output.num_scheduled_tokens:
        request = requests.get(request_id)
        new_token_ids = sampled_token_ids.get(request_id)
        if request is None or not new_token_ids:
            continue
        for num_kept, token_id in enumerate(new_token_ids, start=1):
            request.all_token_ids.append(token_id)
            if check_stop(request, max_model_len):
                new_token_ids = new_token_ids[:num_kept]
                finished.append(request)
                kv.free(request, request.num_computed_tokens)
                break
        kept[request_id] = new_token_ids
    if finished:
        running[:] = [request for request in running if not request.is_finished]
    return kept
