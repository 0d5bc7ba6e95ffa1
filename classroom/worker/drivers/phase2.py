"""What is done with phase 2's functions outside of an engine."""

from collections.abc import Sequence
from typing import Any

from classroom.worker.drivers.attempt import Operation, Result, attempt
from mini_vllm.core.absent import NoPrefixCache
from mini_vllm.core.block import KVCacheBlock
from mini_vllm.core.request import Request


def free_queue(file: Any, num_blocks: int, operations: list[Operation]) -> Result:
    """Take, return and remove blocks; record each result and the length, and at the end the order."""
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
    """A prefix cache that records which blocks it is called to drop."""

    def __init__(self) -> None:
        self.evicted: list[int] = []

    def evict(self, block_id: int) -> bool:
        self.evicted.append(int(block_id))
        return False


def block_pool(file: Any, num_blocks: int, operations: list[Operation]) -> Result:
    """Allocate, touch and free blocks; record the results and the evicted hashes."""
    log = EvictionLog()
    pool, seen = file.BlockPool(num_blocks, log), Result()
    for name, argument in operations:
        found = attempt(lambda name=name, argument=argument: getattr(pool, name)(argument))  # type: ignore[misc]
        seen.append(found if name == "get_new_blocks" else None)
    return [*seen, log.evicted]


class CommitLog(EvictionLog):
    """A prefix cache that records its calls: evictions in order, the others unordered."""

    def __init__(self) -> None:
        super().__init__()
        self.pinned: list[int] = []
        self.committed: set[int] = set()
        self.uncached: set[int] = set()

    def pin(self, request: Request, block_ids: Sequence[int], pool: Any) -> None:
        self.pinned += [-1, *map(int, block_ids)]
        for block_id in block_ids:
            pool.touch(block_id)

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        self.committed |= set(range(num_cached_blocks, num_full_blocks))

    def drop_uncomputed(self, block_ids: Sequence[int]) -> None:
        self.uncached |= set(map(int, block_ids))

    def calls(self) -> Result:
        """Return the calls since the last time."""
        calls = [self.evicted, self.pinned, sorted(self.committed), sorted(self.uncached)]
        self.evicted, self.pinned, self.committed, self.uncached = [], [], set(), set()
        return calls


def block_tables(
    file: Any, num_blocks: int, block_size: int, prompts: list[list[int]], operations: list[Operation]
) -> Result:
    """Allocate and free; record the results, the tables, the free queue, and the calls of the prefix cache."""
    requests = [Request(f"r{number}", prompt) for number, prompt in enumerate(prompts)]
    log, seen = CommitLog(), Result()
    manager = file.PagedKVCacheManager(num_blocks, block_size, log)
    for name, number, computed, *others in operations:
        request = requests[number]
        request.num_computed_tokens = computed
        if name == "free":
            request.num_computed_tokens = 0
            seen.append(manager.free(request, computed))
        else:
            taken = manager.allocate_slots(request, *others)
            seen.append(None if taken is None else list(taken))
        tables = [list(manager.block_ids(other.request_id)) for other in requests]
        counts = sorted(manager.ref_counts().items())
        seen.append([tables, list(manager.free_block_ids()), counts, round(manager.usage, 6), log.calls()])
    return seen
