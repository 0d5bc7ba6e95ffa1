"""A prefix cache that some requests do not read."""

from mini_vllm.core.interfaces import PrefixCache
from mini_vllm.core.request import Request


class SkippablePrefixCache:
    """A `PrefixCache` that finds nothing for a request with `skip_reading_prefix_cache`. (vLLM: `get_computed_blocks`.)

    It is what phase 2 is given. Everything else is the inner cache's own method.
    """

    def __init__(self, inner: PrefixCache) -> None:
        self.inner = inner
        self.update_block_hashes = inner.update_block_hashes
        self.pin = inner.pin
        self.cache_full_blocks = inner.cache_full_blocks
        self.evict = inner.evict
        self.drop_uncomputed = inner.drop_uncomputed
        self.cached_blocks = inner.cached_blocks
        self.hit_rate = inner.hit_rate

    def find_longest_cache_hit(self, request: Request) -> list[int]:
        is_skipped = request.sampling_params.skip_reading_prefix_cache
        return [] if is_skipped else self.inner.find_longest_cache_hit(request)
