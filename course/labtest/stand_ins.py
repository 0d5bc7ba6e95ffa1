"""Stand-ins for the parts around a phase, for graded tests and for the judge's worker."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from mini_vllm.core.block import KVCacheBlock
from mini_vllm.core.interfaces import BlockPool
from mini_vllm.core.request import Request

MANY = 60


def listed(blocks: Sequence[int]) -> str:
    """Return block ids as a list; of many, neighbours that count up as "7-99"."""
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
    """The call `drop_uncomputed(blocks)`, its blocks in ascending order."""

    blocks: list[int]

    def __str__(self) -> str:
        return f"drop_uncomputed({listed(sorted(self.blocks))})"


class RecordingPrefixCache:
    """A prefix cache with the hits that the test sets. It pins the hit blocks and records every call.

    Blocks may be committed or dropped in one call or one by one: calls that continue each other count as one.
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


class RecordingPool:
    """The part of the block pool that phase 4 uses; it records which blocks were touched."""

    def __init__(self) -> None:
        self.touched: list[int] = []

    def touch(self, block_id: int) -> None:
        self.touched.append(block_id)
