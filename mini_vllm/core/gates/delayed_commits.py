"""A prefix cache that can be told to wait: blocks that are still being loaded must not be found."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mini_vllm.core.interfaces import PrefixCache
from mini_vllm.core.request import Request


class DelayedCommits:
    """A `PrefixCache` around phase 4's. (vLLM: `delay_cache_blocks` of `KVCacheManager.allocate_slots`.)

    Phase 2 caches the blocks that it allocates. Under `delayed` it does not; the blocks are cached
    once they are filled.
    """

    def __init__(self, inner: PrefixCache) -> None:
        self.inner = inner
        self._is_delayed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @contextmanager
    def delayed(self) -> Iterator[None]:
        """Cache nothing until the end of the block."""
        self._is_delayed = True
        try:
            yield
        finally:
            self._is_delayed = False

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        if not self._is_delayed:
            self.inner.cache_full_blocks(request, block_ids, num_cached_blocks, num_full_blocks)
