"""What is done with a learner's functions outside of an engine. Plain data in, plain data out.

The judge runs the same drivers on the reference. What raises is noted by the exception's name.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

from mini_vllm.absent import NoPrefixCache, SlotReservation
from mini_vllm.block import KVCacheBlock
from mini_vllm.request import Request
from mini_vllm.step import ScheduledRequest, SchedulerOutput

Result = list[Any]
Operation = Sequence[Any]


def attempt(action: Callable[[], Any]) -> Any:
    """Return what an action gives, or ("raised", name) if it raises what a caller may expect."""
    try:
        return action()
    except NotImplementedError:
        raise
    except (ValueError, IndexError, KeyError) as error:
        return ("raised", type(error).__name__)


def clamp(file: Any, cases: list[tuple[int, int, int]]) -> Result:
    """Call `clamp` for each case."""
    return [file.clamp(*case) for case in cases]


def free_queue(file: Any, num_blocks: int, operations: list[Operation]) -> Result:
    """Take, return and remove blocks; note what came out and the length, and at the end the order."""
    blocks = [KVCacheBlock(number) for number in range(num_blocks)]
    queue, seen = file.FreeKVCacheBlockQueue(blocks[1:]), Result()
    for name, *numbers in operations:
        match name:
            case "popleft":
                taken = attempt(queue.popleft)
                seen.append(taken.block_id if isinstance(taken, KVCacheBlock) else taken)
            case "append":
                queue.append(blocks[numbers[0]])
            case "remove":
                seen.append(attempt(lambda number=numbers[0]: queue.remove(blocks[number])))  # type: ignore[misc]
        seen.append(queue.num_free_blocks)
    return [*seen, list(queue.block_ids())]


class EvictionLog(NoPrefixCache):
    """A prefix cache that only notes which blocks it was told to forget."""

    def __init__(self) -> None:
        self.evicted: list[int] = []

    def evict(self, block_id: int) -> bool:
        self.evicted.append(int(block_id))
        return False


def block_pool(file: Any, num_blocks: int, operations: list[Operation]) -> Result:
    """Hand out, touch and free blocks; note what came out and what was forgotten."""
    log = EvictionLog()
    pool, seen = file.BlockPool(num_blocks, log), Result()
    for name, argument in operations:
        found = attempt(lambda name=name, argument=argument: getattr(pool, name)(argument))  # type: ignore[misc]
        seen.append(found if name == "get_new_blocks" else None)
    return [*seen, log.evicted]


class CommitLog(EvictionLog):
    """A prefix cache that notes what it is told: evictions in order, the others without order."""

    def __init__(self) -> None:
        super().__init__()
        self.adopted: list[int] = []
        self.committed: set[int] = set()
        self.uncached: set[int] = set()

    def adopt(self, request: Request, block_ids: Sequence[int], pool: Any) -> None:
        self.adopted += [-1, *map(int, block_ids)]
        for block_id in block_ids:
            pool.touch(block_id)

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        self.committed |= set(range(num_cached_blocks, num_full_blocks))

    def uncache(self, block_ids: Sequence[int]) -> None:
        self.uncached |= set(map(int, block_ids))

    def told(self) -> Result:
        """Return what was noted since the last time."""
        told = [self.evicted, self.adopted, sorted(self.committed), sorted(self.uncached)]
        self.evicted, self.adopted, self.committed, self.uncached = [], [], set(), set()
        return told


def block_tables(
    file: Any, num_blocks: int, block_size: int, prompts: list[list[int]], operations: list[Operation]
) -> Result:
    """Allocate and free; note the answers, the tables, the free queue, and what the prefix cache was told."""
    requests = [Request(f"r{number}", prompt) for number, prompt in enumerate(prompts)]
    log, seen = CommitLog(), Result()
    manager = file.PagedKVCacheManager(num_blocks, block_size, log)
    for name, number, computed, *others in operations:
        request = requests[number]
        request.num_computed_tokens = computed
        if name == "free":
            seen.append(manager.free(request))
        else:
            taken = manager.allocate_slots(request, *others)
            seen.append(None if taken is None else list(taken))
        tables = [list(manager.block_ids(other.request_id)) for other in requests]
        counts = sorted(manager.ref_counts().items())
        seen.append([tables, list(manager.free_block_ids()), counts, round(manager.usage, 6), log.told()])
    return seen


class FreeLog(SlotReservation):
    """Memory that only notes who gave it back."""

    def __init__(self) -> None:
        super().__init__(100, 100)
        self.freed: list[str] = []

    def free(self, request: Request) -> None:
        self.freed.append(request.request_id)


def update_from_output(file: Any, max_model_len: int, cases: list[Any]) -> Result:
    """Apply sampled tokens, case by case: see `apply_tokens`."""
    return [apply_tokens(file, max_model_len, *case) for case in cases]


def apply_tokens(
    file: Any,
    max_model_len: int,
    requests: list[Request],
    planned: list[int],
    sampled: dict[str, list[int]],
    gone: list[int],
) -> Result:
    """Apply a step's tokens; note what was kept, who still runs, who was freed, and every request's tokens."""
    kv, running = FreeLog(), list(requests)
    step = SchedulerOutput(10, {f"r{number}": 1 for number in planned})
    alive = {request.request_id: request for request in requests if int(request.request_id[1:]) not in gone}
    kept = file.update_from_output(step, sampled, alive, running, max_model_len=max_model_len, kv=kv)
    states = [[list(request.all_token_ids), int(request.status), request.stop_reason] for request in requests]
    told = [[name, list(tokens)] for name, tokens in kept.items()]
    return [told, [request.request_id for request in running], kv.freed, states]


def priority_queue(file: Any, requests: list[Request], operations: list[Operation]) -> Result:
    """Add, take and remove requests; note who came out and who is left in which order."""
    queue, seen = file.PriorityRequestQueue(), Result()
    for name, *numbers in operations:
        arguments = [requests[number] for number in numbers]
        found = attempt(lambda name=name, arguments=arguments: getattr(queue, name)(*arguments))  # type: ignore[misc]
        seen.append(found.request_id if isinstance(found, Request) else None)
        seen.append([len(queue), [request.request_id for request in queue]])
    return seen


def choose_victim(file: Any, cases: list[tuple[list[Request], str]]) -> Result:
    """Return the ids of the victims."""
    return [file.choose_victim(running, policy).request_id for running, policy in cases]


def hash_block(file: Any, cases: list[tuple[int | None, list[int], list[str | None]]]) -> Result:
    """Hash blocks whose parents are earlier cases; return which of them got the same hash as which first one."""
    hashes, first = list[bytes](), dict[bytes, int]()
    for number, (parent, tokens, extra) in enumerate(cases):
        parent_hash = file.ROOT_HASH if parent is None else hashes[parent]
        found = file.hash_block(parent_hash, tokens, tuple(extra)) if extra else file.hash_block(parent_hash, tokens)
        hashes.append(found)
        first.setdefault(found, number)
    return [first[found] for found in hashes]


def num_new_tokens(file: Any, settings: list[Any], cases: list[tuple[Request, int, int]]) -> Result:
    """Ask a chunk policy, over a true clamp, for each case."""
    policy = file.ChunkedPrefillPolicy(true_clamp, *settings)
    return [policy.num_new_tokens(*case) for case in cases]


def should_sample(file: Any, settings: list[Any], cases: list[tuple[Request, int]]) -> Result:
    """Ask a chunk policy who samples."""
    policy = file.ChunkedPrefillPolicy(true_clamp, *settings)
    return [bool(policy.should_sample(*case)) for case in cases]


def true_clamp(num_new: int, budget: int, threshold: int) -> int:
    """`clamp` as the handout of phase 1 describes it in a sentence."""
    return max(0, min(num_new, budget, threshold or num_new))


def batch_rows(file: Any, batch: list[ScheduledRequest]) -> Result:
    """Return what `flatten_tokens` and `select_logits_rows` make of a batch."""
    return [*[list(part) for part in file.flatten_tokens(batch)], list(file.select_logits_rows(batch))]


def batch_places(file: Any, batch: list[ScheduledRequest], block_size: int) -> Result:
    """Return what `compute_slot_mapping` and `pad_block_tables` make of a batch."""
    tables = [list(table) for table in file.pad_block_tables(batch, block_size)]
    return [list(file.compute_slot_mapping(batch, block_size)), tables]


def write_kv(file: Any, *tensors: Any) -> Result:
    """Return the two caches after the write."""
    file.write_kv(*tensors)
    return [tensors[2], tensors[3]]


def paged_attention(file: Any, *arguments: Any) -> Result:
    """Return what the tokens read."""
    return [file.paged_attention(*arguments)]


def sample(file: Any, *arguments: Any) -> Result:
    """Return the tokens."""
    return [int(token) for token in file.sample(*arguments)]


def kv_memory(file: Any, cases: list[tuple[str, list[Any]]]) -> Result:
    """Call the two functions about memory."""
    return [attempt(lambda name=name, numbers=numbers: getattr(file, name)(*numbers)) for name, numbers in cases]  # type: ignore[misc]


def flat_batch_function(file: Any, name: str, arguments: list[Any]) -> Result:
    """Call one function of phase 6 that turns a batch into lists."""
    found = getattr(file, name)(*arguments)
    return [list(part) if isinstance(part, list | tuple) else part for part in found]


DRIVERS: dict[str, Callable[..., Result]] = {
    driver.__name__: cast(Callable[..., Result], driver)
    for driver in (
        *(
            clamp,
            update_from_output,
            free_queue,
            block_pool,
            block_tables,
            priority_queue,
            choose_victim,
            hash_block,
            num_new_tokens,
            should_sample,
        ),
        *(batch_rows, batch_places, write_kv, paged_attention, sample, kv_memory, flat_batch_function),
    )
}
