"""What stands in for phase 4 in the tests of phase 2. Nothing here is to be filled in."""

from collections.abc import Mapping, Sequence

from mini_vllm.core.block import KVCacheBlock
from mini_vllm.core.request import Request
from mini_vllm.seams.interfaces import BlockPool


class RecordingPrefixCache:
    """A prefix cache that finds what the test says, pins what it is told to, and writes down every call."""

    def __init__(self, hits: Mapping[str, Sequence[int]] | None = None) -> None:
        self.hits = dict(hits or {})
        self.calls: list[str] = []
        self.cached: set[int] = set()

    def update_block_hashes(self, request: Request) -> None:
        return None

    def find_longest_cache_hit(self, request: Request) -> list[int]:
        return list(self.hits.get(request.request_id, ()))

    def pin(self, request: Request, block_ids: Sequence[int], pool: BlockPool) -> None:
        self.calls.append(f"pin({request.request_id}, {[int(block_id) for block_id in block_ids]})")
        for block_id in block_ids:
            pool.touch(block_id)

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        blocks = [int(block_id) for block_id in block_ids[:num_full_blocks]]
        self.calls.append(f"cache_full_blocks({request.request_id}, {blocks}, {num_cached_blocks}, {num_full_blocks})")
        self.cached.update(blocks[num_cached_blocks:])

    def evict(self, block_id: int) -> bool:
        self.calls.append(f"evict({block_id})")
        was_cached = block_id in self.cached
        self.cached.discard(block_id)
        return was_cached

    def drop_uncomputed(self, block_ids: Sequence[int]) -> None:
        if block_ids:
            self.calls.append(f"drop_uncomputed({sorted(int(block_id) for block_id in block_ids)})")
            self.cached.difference_update(int(block_id) for block_id in block_ids)

    def cached_blocks(self) -> dict[int, bytes]:
        return {block_id: bytes([block_id]) for block_id in sorted(self.cached)}

    def hit_rate(self) -> float:
        return 0.0

    def take_calls(self) -> list[str]:
        """Return the calls since the last time."""
        calls, self.calls = self.calls, []
        return calls


class LookCounter:
    """How often somebody looked at one of the blocks."""

    count = 0


class CountedBlock(KVCacheBlock):
    """A block that counts whenever it is read, changed, compared or hashed."""

    def __init__(self, block_id: int, looks: LookCounter) -> None:
        object.__setattr__(self, "looks", looks)
        super().__init__(block_id)

    def __getattribute__(self, name: str) -> object:
        object.__getattribute__(self, "looks").count += 1
        return object.__getattribute__(self, name)

    def __setattr__(self, name: str, value: object) -> None:
        object.__getattribute__(self, "looks").count += 1
        object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        object.__getattribute__(self, "looks").count += 1
        return self is other

    def __hash__(self) -> int:
        object.__getattribute__(self, "looks").count += 1
        return object.__hash__(self)
