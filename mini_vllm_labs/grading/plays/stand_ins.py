"""Provides stand-ins for the parts around a phase, for graded tests and the judge's worker."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mini_vllm.core.block import KVCacheBlock
from mini_vllm.core.interfaces import BlockPool
from mini_vllm.core.request import Request

MANY = 60
MAX_CALLS = 2000


def listed(blocks: Sequence[int]) -> str:
    """Return block ids as a list; in a long one, consecutive ids are shortened to "7-99"."""
    if len(blocks) <= MANY:
        return str([*blocks])
    starts = [place for place, block in enumerate(blocks) if not place or block != blocks[place - 1] + 1]
    runs = [(blocks[start], blocks[end - 1]) for start, end in pairwise([*starts, len(blocks)])]
    return f"[{', '.join(str(first) if first == last else f'{first}-{last}' for first, last in runs)}]"


@dataclass(slots=True)
class Commit:
    """The call `cache_full_blocks(request_id, blocks, start, end)`."""

    request_id: str
    blocks: list[int]
    start: int
    end: int

    def __str__(self) -> str:
        return f"cache_full_blocks({self.request_id}, {listed(self.blocks)}, {self.start}, {self.end})"


@dataclass(slots=True)
class Drop:
    """The call `drop_uncomputed(blocks)`, shown with its blocks in ascending order."""

    blocks: list[int]

    def __str__(self) -> str:
        return f"drop_uncomputed({listed(sorted(self.blocks))})"


class RecordingPrefixCache:
    """A prefix cache with given hits. The cache pins the hit blocks and records every call.

    Successive commits or drops that continue each other count as one call, so blocks may also be passed one by one.
    """

    def __init__(self, hits: Mapping[str, Sequence[int]] | None = None) -> None:
        self.hits = dict(hits or {})
        self.calls: list[str | Commit | Drop] = []
        self.cached: set[int] = set()

    def update_block_hashes(self, request: Request) -> None:
        return None

    def find_longest_cache_hit(self, request: Request) -> list[int]:
        return list(self.hits.get(request.request_id, ()))

    def pin(self, request: Request, block_ids: Sequence[int], pool: BlockPool) -> None:
        self.calls.append(f"pin({request.request_id}, {listed([int(block_id) for block_id in block_ids])})")
        for block_id in block_ids:
            pool.touch(block_id)

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        name, blocks = request.request_id, [int(block_id) for block_id in block_ids[:num_full_blocks]]
        self.cached.update(blocks[num_cached_blocks:])
        last = self.calls[-1] if self.calls else None
        if isinstance(last, Commit) and (last.request_id, last.end) == (name, num_cached_blocks):
            last.blocks, last.end = blocks, num_full_blocks
        else:
            self.calls.append(Commit(name, blocks, num_cached_blocks, num_full_blocks))

    def evict(self, block_id: int) -> bool:
        self.calls.append(f"evict({'a KVCacheBlock' if isinstance(block_id, KVCacheBlock) else block_id})")
        was_cached = block_id in self.cached
        self.cached.discard(block_id)
        return was_cached

    def drop_uncomputed(self, block_ids: Sequence[int]) -> None:
        blocks = [int(block_id) for block_id in block_ids]
        self.cached.difference_update(blocks)
        if self.calls and isinstance(self.calls[-1], Drop):
            self.calls[-1].blocks += blocks
        elif blocks:
            self.calls.append(Drop(blocks))

    def cached_blocks(self) -> dict[int, bytes]:
        return {block_id: bytes([block_id]) for block_id in sorted(self.cached)}

    def hit_rate(self) -> float:
        return 0.0

    def take_calls(self) -> list[str]:
        calls, self.calls = [str(call) for call in self.calls], []
        return calls


class FrozenKV:
    """A read-only KV cache manager. Like the real manager, it returns its own lists, to reveal code that changes
    them."""

    def __init__(self, block_size: int, tables: Mapping[str, Sequence[int]], free_queue: Sequence[int]) -> None:
        self.block_size = block_size
        self.tables = {request_id: list(table) for request_id, table in tables.items()}
        self.counts = dict(Counter(block_id for table in tables.values() for block_id in table))
        self.free_queue = list(free_queue)

    def contents(self) -> dict[str, object]:
        """Return copies of everything that a caller could change, keyed by name."""
        tables = {f"block table of {request_id}": list(table) for request_id, table in self.tables.items()}
        return {**tables, "ref_counts": dict(self.counts), "free blocks": list(self.free_queue)}

    @property
    def num_free_blocks(self) -> int:
        return len(self.free_queue)

    @property
    def num_usable_blocks(self) -> int:
        return len(self.free_queue) + len(self.counts)

    def block_ids(self, request_id: str) -> list[int]:
        if not isinstance(request_id, str):
            raise TypeError(
                f"kv.block_ids takes a request's id, which is a string, but got a {type(request_id).__name__}"
            )
        return self.tables.get(request_id, [])

    def free_block_ids(self) -> list[int]:
        return self.free_queue

    def ref_counts(self) -> dict[int, int]:
        return self.counts

    def get_computed_blocks(self, request: Request) -> list[int]:
        raise AssertionError("the hit blocks are passed as an argument, so do not look them up")

    def allocate_slots(
        self, request: Request, num_new_tokens: int, hit_blocks: Sequence[int] = (), num_lookahead_tokens: int = 0
    ) -> list[int] | None:
        raise AssertionError("this method only counts: it must not allocate")

    def free(self, request: Request, num_computed_tokens: int) -> None:
        raise AssertionError("this method only counts: it must not free anything")


class SharedBlocksKV:
    """A KV cache manager with given block tables; a shared block is free once all tables containing it are freed.

    With `is_reserved`, the manager is full until a request is freed; after that, every allocation succeeds without new
    blocks. `freed` lists the calls to `free`, except a first call for a request without blocks.
    """

    def __init__(
        self, num_blocks: int, block_size: int, tables: Mapping[str, Sequence[int]], *, is_reserved: bool = False
    ) -> None:
        self.block_size = block_size
        self.num_usable_blocks = num_blocks
        self.tables = {name: list(table) for name, table in tables.items()}
        self.is_reserved = is_reserved
        self.freed: list[str]
        self._gone: set[str]
        self.forget_calls()

    def forget_calls(self) -> None:
        self.freed, self.num_calls, self._gone = [], 0, set()

    @property
    def num_free_blocks(self) -> int:
        return len(self.free_block_ids())

    def get_computed_blocks(self, request: Request) -> list[int]:
        return []

    def allocate_slots(
        self, request: Request, num_new_tokens: int, hit_blocks: Sequence[int] = (), num_lookahead_tokens: int = 0
    ) -> list[int] | None:
        self._count()
        if self.is_reserved:
            return [] if self.freed else None
        table = self.tables.get(request.request_id, [])
        num_tokens = request.num_computed_tokens + num_new_tokens + num_lookahead_tokens
        num_needed = max(0, -(-num_tokens // self.block_size) - len(table))
        new_blocks = self.free_block_ids()[:num_needed]
        if len(new_blocks) < num_needed:
            return None
        self.tables[request.request_id] = table + new_blocks
        self._gone.discard(request.request_id)
        return new_blocks

    def free(self, request: Request, num_computed_tokens: int) -> None:
        self._count()
        name = request.request_id
        if self.tables.pop(name, None) or name in self._gone:
            self.freed.append(f"free({name}, {num_computed_tokens}){' again' if name in self._gone else ''}")
        self._gone.add(name)

    def block_ids(self, request_id: str) -> list[int]:
        return list(self.tables.get(request_id, ()))

    def free_block_ids(self) -> list[int]:
        held = {block_id for table in self.tables.values() for block_id in table}
        return [block_id for block_id in range(1, self.num_usable_blocks + 1) if block_id not in held]

    def ref_counts(self) -> dict[int, int]:
        held = Counter(block_id for table in self.tables.values() for block_id in table)
        return {block_id: held[block_id] for block_id in sorted(held)}

    def _count(self) -> None:
        self.num_calls += 1
        if self.num_calls > MAX_CALLS:  # an endless loop would fill up memory before the time limit was reached
            raise RuntimeError(f"make_room never returns: it has called the memory's methods {MAX_CALLS} times")


class RecordingPool:
    """The part of the block pool that phase 4 uses; it records the touched blocks."""

    def __init__(self) -> None:
        self.touched: list[int] = []

    def touch(self, block_id: int) -> None:
        self.touched.append(block_id)
