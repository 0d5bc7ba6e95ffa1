"""A prefix cache that reports its evictions, for a recorder."""

from collections.abc import Callable, Sequence

from mini_vllm.core.interfaces import BlockPool, PrefixCache
from mini_vllm.core.request import Request


class ObservedPrefixCache:
    """Forwards every call, and calls `on_evict` with the id of each block that is evicted for reuse."""

    def __init__(self, inner: PrefixCache, on_evict: Callable[[int], object]) -> None:
        self.inner = inner
        self.on_evict = on_evict

    def update_block_hashes(self, request: Request) -> None:
        self.inner.update_block_hashes(request)

    def find_longest_cache_hit(self, request: Request) -> list[int]:
        return self.inner.find_longest_cache_hit(request)

    def pin(self, request: Request, block_ids: Sequence[int], pool: BlockPool) -> None:
        self.inner.pin(request, block_ids, pool)

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        self.inner.cache_full_blocks(request, block_ids, num_cached_blocks, num_full_blocks)

    def evict(self, block_id: int) -> bool:
        was_cached = self.inner.evict(block_id)
        if was_cached:
            self.on_evict(block_id)
        return was_cached

    def drop_uncomputed(self, block_ids: Sequence[int]) -> None:
        self.inner.drop_uncomputed(block_ids)

    def cached_blocks(self) -> dict[int, bytes]:
        return self.inner.cached_blocks()

    def hit_rate(self) -> float:
        return self.inner.hit_rate()
