"""Layers around phase 4's prefix cache."""

from collections.abc import Callable, Sequence

from mini_vllm.core.interfaces import PrefixCache

CacheLayer = Callable[[PrefixCache], PrefixCache]


def wrapped(prefix_cache: PrefixCache, layers: Sequence[CacheLayer]) -> PrefixCache:
    """Wrap a prefix cache in `layers`; the first layer is the innermost."""
    for layer in layers:
        prefix_cache = layer(prefix_cache)
    return prefix_cache
