"""Phase 1: one step of the scheduler. You write all three functions.

The two counters of a request tell you everything: it wants `num_tokens - num_computed_tokens` tokens.
`kv`, `preemption` and `chunks` are given here; you will write them in phases 2, 3 and 5.
"""

from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.core.stopping import check_stop
from mini_vllm.seams.interfaces import ChunkPolicy, KVCacheManager, Preemption, RequestQueue


def clamp(num_new: int, budget: int, threshold: int) -> int:
    """Return how many of `num_new` tokens one request may compute now.

    At most `threshold` (0 means no such limit), at most what is left of `budget`, never below 0.
    """
    # 1. Cut to `threshold`, but only if it is over 0 and smaller than `num_new`.
    # 2. Cut to `budget`.
    # 3. Never return less than 0.
    raise NotImplementedError("Phase 1, task 1: clamp")


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
    # Start with a SchedulerOutput whose token_budget is max_num_batched_tokens. Keep the budget there, not in
    # a variable of your own: make_room gives tokens back to it.
    #
    # Task 1.2, the RUNNING phase. For each request of a *copy* of `running` (make_room takes victims out):
    # 1. Stop when the budget is 0. Skip a request that is not RUNNING any more: it gave way in this step.
    # 2. Ask `chunks.num_new_tokens(request, its computed tokens, budget left)`; skip it if that is 0.
    # 3. Ask `kv.allocate_slots(request, n)`. None is a refusal; an empty list is not.
    # 4. Refused: ask `preemption.make_room(...)`. False means the request does not get its slots: if it is
    #    not RUNNING any more it was its own victim, and the phase ends; otherwise go on with the next one.
    # 5. Enter n in `num_scheduled_tokens` and take it from the budget.
    #
    # Task 1.3, the WAITING phase, only if nobody was refused memory above (not even if room was made then).
    # While somebody waits, budget is left and a slot is free (`max_num_seqs`):
    # 1. Look at the first one without taking it out.
    # 2. `kv.get_computed_blocks(request)` gives its hit blocks, each worth kv.block_size computed tokens.
    # 3. Ask `chunks` how many tokens. 0, or `chunks.admits(...)` is False: stop.
    # 4. `kv.allocate_slots(request, n, hit_blocks)` is None: stop. Nobody overtakes the first in line.
    # 5. Move it to the end of `running`, `request.admit(hit tokens)`, enter it.
    raise NotImplementedError("Phase 1, tasks 2 and 3: schedule_step")


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
    # For each request id of the step, in order:
    # 1. Pass over a request that is gone (not in `requests`) or that got no tokens.
    # 2. Append its tokens one by one to `all_token_ids`; after each ask `check_stop(request, max_model_len)`.
    # 3. At a stop: drop the tokens behind it, and `kv.free(request, request.num_computed_tokens)`.
    # 4. Note which tokens were kept.
    # Leave `requests` alone. At the end take the finished requests out of `running`, in place, without
    # changing the order.
    raise NotImplementedError("Phase 1, task 4: update_from_output")
