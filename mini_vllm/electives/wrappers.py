"""Base classes for all seam wrappers: they forward every call, and subclasses override some of the methods.

The base classes define every method explicitly, so mypy reports a method that a seam has and its base class lacks.
"""

from collections.abc import Sequence

from mini_vllm.core.interfaces import BlockPool, ChunkPolicy, KVCacheManager, PrefixCache
from mini_vllm.core.request import Request


class WrappedKVCache:
    """A `KVCacheManager` that forwards every call to `inner`."""

    def __init__(self, inner: KVCacheManager) -> None:
        self.inner = inner
        self.block_size = inner.block_size
        self.num_usable_blocks = inner.num_usable_blocks

    @property
    def num_free_blocks(self) -> int:
        return self.inner.num_free_blocks

    def get_computed_blocks(self, request: Request) -> list[int]:
        return self.inner.get_computed_blocks(request)

    def allocate_slots(
        self, request: Request, num_new_tokens: int, hit_blocks: Sequence[int] = (), num_lookahead_tokens: int = 0
    ) -> list[int] | None:
        return self.inner.allocate_slots(request, num_new_tokens, hit_blocks, num_lookahead_tokens)

    def free(self, request: Request, num_computed_tokens: int) -> None:
        self.inner.free(request, num_computed_tokens)

    def block_ids(self, request_id: str) -> list[int]:
        return self.inner.block_ids(request_id)

    def free_block_ids(self) -> list[int]:
        return self.inner.free_block_ids()

    def ref_counts(self) -> dict[int, int]:
        return self.inner.ref_counts()


class WrappedPrefixCache:
    """A `PrefixCache` that forwards every call to `inner`."""

    def __init__(self, inner: PrefixCache) -> None:
        self.inner = inner

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
        return self.inner.evict(block_id)

    def drop_uncomputed(self, block_ids: Sequence[int]) -> None:
        self.inner.drop_uncomputed(block_ids)

    def cached_blocks(self) -> dict[int, bytes]:
        return self.inner.cached_blocks()

    def hit_rate(self) -> float:
        return self.inner.hit_rate()


class WrappedChunks:
    """A `ChunkPolicy` that forwards every call to `inner`."""

    def __init__(self, inner: ChunkPolicy) -> None:
        self.inner = inner

    def num_new_tokens(self, request: Request, num_computed_tokens: int, token_budget: int) -> int:
        return self.inner.num_new_tokens(request, num_computed_tokens, token_budget)

    def admits(
        self, request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: KVCacheManager
    ) -> bool:
        return self.inner.admits(request, hit_blocks, running, kv)

    def should_sample(self, request: Request, num_computed_tokens: int) -> bool:
        return self.inner.should_sample(request, num_computed_tokens)
