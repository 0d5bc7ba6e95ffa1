"""Checks the engine's state after every step. Each check raises an `InvariantError` that reports the numbers
involved."""

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from mini_vllm.config import Policy
from mini_vllm.core.block import NULL_BLOCK_ID
from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.interfaces import KVCacheManager
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.core.step_checks import InvariantError as InvariantError


def require(condition: bool, message: str) -> None:
    """Raise `InvariantError` with `message` unless `condition` holds."""
    if not condition:
        raise InvariantError(message)


def check_step(scheduler: Scheduler, scheduler_output: SchedulerOutput) -> None:
    """Check a plan against the engine's limits, directly after `schedule()`."""
    total = scheduler_output.total_num_scheduled_tokens
    budget = scheduler.max_num_batched_tokens
    left = scheduler_output.token_budget
    require(total + left == budget, f"{total} tokens planned, {left} of {budget} left")
    require(left >= 0, f"{total} tokens planned in a budget of {budget}")
    num_running = len(scheduler.running)
    require(num_running <= scheduler.max_num_seqs, f"{num_running} running in {scheduler.max_num_seqs} seats")
    for request_id, num_tokens in scheduler_output.num_scheduled_tokens.items():
        require(num_tokens > 0, f"{request_id} was planned with {num_tokens} tokens")
        status = scheduler.requests[request_id].status
        require(status is RequestStatus.RUNNING, f"{request_id} was planned but is {status.name}")


def check_state(scheduler: Scheduler, policy: Policy = "fcfs") -> None:
    """Check queues, counters and blocks. The checks are valid at any time between two steps."""
    check_queues(scheduler, policy)
    for request in scheduler.requests.values():
        check_request(request, scheduler)
    check_pool(scheduler)
    check_sharing(scheduler)
    check_cache(scheduler)


def check_queues(scheduler: Scheduler, policy: Policy) -> None:
    """Check that every live request is in exactly one queue, in order and with that queue's status."""
    places = Counter(r.request_id for r in [*scheduler.running, *scheduler.waiting])
    twice = [request_id for request_id, count in places.items() if count > 1]
    require(not twice, f"in the queues more than once: {twice}")
    require(
        places.keys() == scheduler.requests.keys(),
        f"in no queue: {scheduler.requests.keys() - places.keys()}; "
        f"in a queue but not alive: {places.keys() - scheduler.requests.keys()}",
    )
    for request in scheduler.running:
        require(request.status is RequestStatus.RUNNING, f"{request.request_id} runs but is {request.status.name}")
    for request in scheduler.waiting:
        waits = request.status is not RequestStatus.RUNNING and not request.is_finished
        require(waits, f"{request.request_id} waits but is {request.status.name}")
    wrong_order = order_error(scheduler) if policy == "fcfs" else ""
    require(not wrong_order, wrong_order)


def order_error(scheduler: Scheduler) -> str:
    """Return a message about two requests out of arrival order; empty if the order is correct or does not matter."""
    if scheduler.orders_by_priority or scheduler.has_policy:
        return ""
    arrival = {request_id: order for order, request_id in enumerate(scheduler.requests)}
    queue = [r.request_id for r in [*scheduler.running, *scheduler.waiting]]
    if scheduler.gates.passes_over:  # a skipped request keeps its position while later ones are admitted
        queue = [r.request_id for r in scheduler.waiting if r.num_cached_tokens < 0]
        if scheduler.release is not None and scheduler.gates.has_connector:
            queue = []  # requests that hold blocks, or that lost blocks in a failed load, come before the others
    pairs = (pair for pair in pairwise(queue) if arrival[pair[0]] > arrival[pair[1]])
    return next((f"{younger} arrived before {older} but comes after it" for older, younger in pairs), "")


def check_request(request: Request, scheduler: Scheduler) -> None:
    """Check that a request's counters are in range and its block tables have the required length."""
    name, computed, kv = request.request_id, request.num_computed_tokens, scheduler.kv
    num_known = request.num_tokens + request.num_output_placeholders
    require(
        0 <= computed <= num_known and request.num_tokens <= scheduler.max_model_len,
        f"{name}: {computed} of {num_known} tokens computed, max_model_len {scheduler.max_model_len}",
    )
    require(request.num_output_placeholders >= 0, f"{name} has {request.num_output_placeholders} placeholders")
    tables = scheduler.block_tables(name)
    # A request whose K and V came from elsewhere already has computed tokens and blocks before it runs.
    waits = request.status not in (RequestStatus.RUNNING, RequestStatus.WAITING_FOR_REMOTE_KVS)
    if waits and not (computed > 0 and scheduler.gates.awaits_others):
        require(computed == 0, f"{name} waits with {computed} computed tokens")
        require(not any(tables), f"{name} waits but holds {sum(map(len, tables))} blocks")
        return
    # Stand-ins for drafts may be planned past the last possible token; real drafts never are.
    num_needed = cdiv(min(computed, request.max_total_tokens(scheduler.max_model_len) - 1), kv.block_size)
    num_allowed = cdiv(min(computed + scheduler.num_spare_tokens, scheduler.max_model_len), kv.block_size)
    if scheduler.gates.passes_over:
        # a load allocates blocks for all known tokens, and keeps them even if some are lost
        num_allowed = max(num_allowed, cdiv(num_known + scheduler.num_spare_tokens, kv.block_size))
    num_allowed = max(num_needed, num_allowed)
    for table in tables:
        require(len(table) >= num_needed, f"{name} holds {len(table)} blocks for {computed} computed tokens")
        require(len(table) <= num_allowed, f"{name} holds {len(table)} blocks but needs only {num_allowed}")


def check_pool(scheduler: Scheduler) -> None:
    """Check that every block is either free or held by `ref_cnt` requests."""
    kv = scheduler.kv
    holders: Counter[int] = Counter()
    for request_id in (*scheduler.requests, *scheduler.gates.requests_being_sent):
        held = _held_blocks(scheduler, request_id)
        require(len(set(held)) == len(held), f"{request_id} holds a block twice: {held}")
        holders.update(held)
    free = kv.free_block_ids()
    require(len(free) == kv.num_free_blocks, f"{len(free)} blocks in the free queue, {kv.num_free_blocks} counted")
    require(len(set(free)) == len(free), f"a block is in the free queue twice: {free}")
    counts = kv.ref_counts()
    if dict(holders) != counts:  # not `require`: building its message would format both dicts at every step
        raise InvariantError(f"block holders are {dict(holders)}, but the reference counts are {counts}")
    require(not holders.keys() & set(free), f"free and held: {holders.keys() & set(free)}")
    require(0 not in holders and 0 not in free, "block 0 is the null block: never free, never held")
    num_known = len(free) + len(holders)
    require(num_known == kv.num_usable_blocks, f"{num_known} blocks are free or held, of {kv.num_usable_blocks}")


def check_sharing(scheduler: Scheduler) -> None:
    """Check that two requests share a block only if they agree on every token up to its end."""
    kv = scheduler.kv
    owner: dict[int, tuple[Request, int]] = {}
    for request, index, block_id in _places(scheduler):
        if block_id not in owner:
            owner[block_id] = (request, index)
            continue
        other, other_index = owner[block_id]
        same = other_index == index and _prefix(other, index, kv) == _prefix(request, index, kv)
        require(same, f"{request.request_id} and {other.request_id} share block {block_id}, not its prefix")


def check_cache(scheduler: Scheduler) -> None:
    """Check that cached blocks held by requests are full and computed, and that equal hashes mean equal prefixes."""
    kv, cached = scheduler.kv, scheduler.prefix_cache.cached_blocks()
    prefix_of_hash: dict[bytes, object] = {}
    most_computed: dict[int, int] = {}
    if scheduler.gates.has_connector:  # if several requests lost the same block, the first of them caches it again
        for request, _, block_id in _places(scheduler):
            most_computed[block_id] = max(most_computed.get(block_id, 0), request.num_computed_tokens)
    for request, index, block_id in _places(scheduler):
        if block_id not in cached:
            continue
        num_tokens = (index + 1) * kv.block_size
        require(
            num_tokens <= most_computed.get(block_id, request.num_computed_tokens),
            f"block {block_id} of {request.request_id} is cached up to token {num_tokens}, "
            f"but only {request.num_computed_tokens} are computed",
        )
        prefix = _prefix(request, index, kv)
        known = prefix_of_hash.setdefault(cached[block_id], prefix)
        require(known == prefix, f"block {block_id} has the hash of a different prefix")


def leak_of(scheduler: Scheduler) -> str:
    """Return a message about blocks that are neither free nor held by a request; empty if there are none."""
    kv = scheduler.kv
    holders = (*scheduler.requests, *scheduler.gates.requests_being_sent)
    held = {block_id for request_id in holders for block_id in _held_blocks(scheduler, request_id)}
    num_leaked = kv.num_usable_blocks - kv.num_free_blocks - len(held)
    words = "blocks have leaked: no request holds them, and `free` has not freed them"
    return f"{num_leaked} of {kv.num_usable_blocks} {words}" if num_leaked > 0 else ""


def check_drained(scheduler: Scheduler) -> None:
    """Check that nothing is left after the last request: no requests, no holders, and every block free."""
    require(not scheduler.requests, f"unfinished: {list(scheduler.requests)}")
    require(not scheduler.running and not len(scheduler.waiting), "a queue is not empty")
    kv = scheduler.kv
    num_free = kv.num_free_blocks
    require(num_free == kv.num_usable_blocks, leak_of(scheduler) or f"{num_free} free blocks are too many")
    require(not kv.ref_counts(), f"blocks with holders: {kv.ref_counts()}")


def _held_blocks(scheduler: Scheduler, request_id: str) -> list[int]:
    """Return the blocks in all of a request's tables, excluding the null blocks of windows."""
    tables = scheduler.block_tables(request_id)
    has_windows = scheduler.has_windows
    return [block_id for table in tables for block_id in table if block_id != NULL_BLOCK_ID or not has_windows]


def _places(scheduler: Scheduler) -> Iterator[tuple[Request, int, int]]:
    """Yield each running request with the index and the id of every block in its tables."""
    for request in scheduler.running:
        for table in scheduler.block_tables(request.request_id):
            for index, block_id in enumerate(table):
                if block_id != NULL_BLOCK_ID or not scheduler.has_windows:
                    yield request, index, block_id


def _prefix(request: Request, index: int, kv: KVCacheManager) -> object:
    size = kv.block_size
    images = [
        (block, image.identifier)
        for image in request.mm_features
        for block in range(image.offset // size, min(cdiv(image.end, size), index + 1))
    ]
    return request.cache_salt, request.adapter_id, tuple(request.all_token_ids[: (index + 1) * size]), sorted(images)
