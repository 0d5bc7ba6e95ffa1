"""Wrappers around phase 4: image hashes, skipped and checked hits, delayed commits, and a recorder of evictions."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from mini_vllm.core.interfaces import BlockPool, HashBlock, PrefixCache
from mini_vllm.core.request import Request
from mini_vllm.core.step_checks import check_hit
from mini_vllm.electives.gates.admission import ExtraKeys
from mini_vllm.electives.wrappers import WrappedPrefixCache

ROOT_HASH = bytes(32)


class ImagesInHashes(WrappedPrefixCache):
    """Wraps phase 4's `PrefixCache` and hashes the blocks of requests with images, using phase 4's `hash_block`.

    Phase 11's `extra_keys` returns the images in a block, as in vLLM. With `has_places` the hash also covers where the
    images begin, because a text may contain their placeholder tokens. Phase 4 then finds that all hashes already exist
    and adds none.
    """

    def __init__(
        self, inner: PrefixCache, hash_block: HashBlock, extra_keys: ExtraKeys, block_size: int, *, has_places: bool
    ) -> None:
        super().__init__(inner)
        self.hash_block = hash_block
        self.extra_keys = extra_keys
        self.block_size = block_size
        self.has_places = has_places

    def update_block_hashes(self, request: Request) -> None:
        if not request.mm_features:
            self.inner.update_block_hashes(request)
            return
        hashes, size = request.block_hashes, self.block_size
        for start in range(len(hashes) * size, request.num_tokens - size + 1, size):
            parent, token_ids = hashes[-1] if hashes else ROOT_HASH, request.all_token_ids[start : start + size]
            keys = self.extra_keys(request, start, start + size)
            if self.has_places:
                inside = (one for one in request.mm_features if one.offset < start + size and start < one.end)
                keys += tuple(str(one.offset - start) for one in inside)
            hashes.append(self.hash_block(parent, token_ids, keys))

    def find_longest_cache_hit(self, request: Request) -> list[int]:
        self.update_block_hashes(request)
        return self.inner.find_longest_cache_hit(request)

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        self.update_block_hashes(request)
        self.inner.cache_full_blocks(request, block_ids, num_cached_blocks, num_full_blocks)


class DelayedCommits(WrappedPrefixCache):
    """Wraps phase 4's `PrefixCache` to delay the caching of blocks. (vLLM: `delay_cache_blocks` of
    `KVCacheManager.allocate_slots`.)

    Phase 2 caches the blocks that it allocates. Within `delayed`, phase 2's caching calls are ignored, and the loader
    caches the blocks once they are filled.
    """

    def __init__(self, inner: PrefixCache) -> None:
        super().__init__(inner)
        self.is_delayed = False

    @contextmanager
    def delayed(self) -> Iterator[None]:
        """Ignore calls to `cache_full_blocks` in this context."""
        self.is_delayed = True
        try:
            yield
        finally:
            self.is_delayed = False

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        if not self.is_delayed:
            self.inner.cache_full_blocks(request, block_ids, num_cached_blocks, num_full_blocks)


class SkippablePrefixCache(WrappedPrefixCache):
    """Returns no hit for a request with `skip_reading_prefix_cache`. (vLLM: `get_computed_blocks`.)"""

    def find_longest_cache_hit(self, request: Request) -> list[int]:
        is_skipped = request.sampling_params.skip_reading_prefix_cache
        return [] if is_skipped else self.inner.find_longest_cache_hit(request)


class CheckedPrefixCache(SkippablePrefixCache):
    """Wraps phase 4's `PrefixCache` to record the hash of each full block and check every hit that is admitted.

    Raises `InvariantError` if a hit block holds a different prefix, because the request would read another text's K and
    V.
    """

    def __init__(self, inner: PrefixCache) -> None:
        super().__init__(inner)
        self.hash_of_block: dict[int, bytes] = {}

    def pin(self, request: Request, block_ids: Sequence[int], pool: BlockPool) -> None:
        check_hit(request, block_ids, self.hash_of_block, self.inner.cached_blocks)
        self.inner.pin(request, block_ids, pool)

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        self.inner.cache_full_blocks(request, block_ids, num_cached_blocks, num_full_blocks)
        new = slice(num_cached_blocks, num_full_blocks)
        for block_id, block_hash in zip(block_ids[new], request.block_hashes[new], strict=False):
            self.hash_of_block[block_id] = block_hash

    def evict(self, block_id: int) -> bool:
        self.hash_of_block.pop(block_id, None)
        return self.inner.evict(block_id)

    def drop_uncomputed(self, block_ids: Sequence[int]) -> None:
        self.inner.drop_uncomputed(block_ids)
        for block_id in block_ids:
            self.hash_of_block.pop(block_id, None)


class ObservedPrefixCache(WrappedPrefixCache):
    """Informs a recorder of evictions: calls `on_evict` with the id of each block evicted for reuse."""

    def __init__(self, inner: PrefixCache, on_evict: Callable[[int], object]) -> None:
        super().__init__(inner)
        self.on_evict = on_evict

    def evict(self, block_id: int) -> bool:
        was_cached = self.inner.evict(block_id)
        if was_cached:
            self.on_evict(block_id)
        return was_cached
