"""A prefix cache that reports its evictions, for a recorder."""

from collections.abc import Callable
from typing import Any

from mini_vllm.core.interfaces import PrefixCache


class ObservedPrefixCache:
    """A `PrefixCache` that forwards every call, and calls `on_evict` with the id of each block evicted for reuse."""

    def __init__(self, inner: PrefixCache, on_evict: Callable[[int], object]) -> None:
        self.inner = inner
        self.on_evict = on_evict

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def evict(self, block_id: int) -> bool:
        was_cached = self.inner.evict(block_id)
        if was_cached:
            self.on_evict(block_id)
        return was_cached
