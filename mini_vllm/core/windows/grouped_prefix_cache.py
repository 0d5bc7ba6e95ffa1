"""Which block holds which tokens of which group of layers; the hit that all groups share."""

from collections.abc import Mapping, Sequence

from mini_vllm.core.block import NULL_BLOCK_ID
from mini_vllm.core.interfaces import BlockPool, PrefixCache
from mini_vllm.core.request import Request
from mini_vllm.core.windows.window_functions import Tables, WindowFunctions


class GroupedPrefixCache:
    """A `PrefixCache` for groups of layers, made of one of phase 4 for each group, `caches`.

    `windows` has for each group how many tokens its attention reaches, the newest included; None is full attention,
    and comes first. `tables` are the block tables by request id, one per group; the KV cache manager maintains them.
    """

    def __init__(
        self,
        functions: WindowFunctions,
        caches: Sequence[PrefixCache],
        block_size: int,
        windows: Sequence[int | None],
        tables: Mapping[str, Tables],
    ) -> None:
        self.functions = functions
        self.caches = caches
        self.block_size = block_size
        self.windows = windows
        self.tables = tables
        self._num_looked_up = self._num_found = 0

    def update_block_hashes(self, request: Request) -> None:
        self.caches[0].update_block_hashes(request)

    def find_longest_cache_hit(self, request: Request) -> list[int]:
        return self.find_hit_of_each_group(request, request.num_tokens - 1)[0]

    def find_hit_of_each_group(self, request: Request, max_num_tokens: int) -> Tables:
        """Return the hit blocks of each group, equally many: a hit counts as far as every group has it."""
        self.update_block_hashes(request)
        block_hashes = request.block_hashes[: max_num_tokens // self.block_size]
        cached = [[self._find(cache, one) for one in block_hashes] for cache in self.caches]
        return self.functions.find_common_hit(cached, self.windows, self.block_size)

    def _find(self, cache: PrefixCache, block_hash: bytes) -> int | None:
        # Phase 4 looks for prefixes. A request whose first block has this hash asks for this block alone; its one token
        # more is there because the last token of a request is never a hit.
        asking = Request("", [0] * (self.block_size + 1))
        asking.block_hashes = [block_hash]
        return next(iter(cache.find_longest_cache_hit(asking)), None)

    def pin(self, request: Request, block_ids: Sequence[int], pool: BlockPool) -> None:
        held = [block_id for block_id in block_ids if block_id != NULL_BLOCK_ID]
        for block_id in held:
            pool.touch(block_id)
        self._num_looked_up += request.num_tokens
        self._num_found += len(block_ids) * self.block_size

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        self.update_block_hashes(request)
        for cache, table in zip(self.caches, self.tables[request.request_id], strict=True):
            num_null = table[num_cached_blocks:num_full_blocks].count(NULL_BLOCK_ID)  # these are the first ones
            cache.cache_full_blocks(request, table, num_cached_blocks + num_null, num_full_blocks)

    def evict(self, block_id: int) -> bool:
        return any(cache.evict(block_id) for cache in self.caches)

    def drop_uncomputed(self, block_ids: Sequence[int]) -> None:
        for cache in self.caches:
            cache.drop_uncomputed(block_ids)

    def cached_blocks(self) -> dict[int, bytes]:
        return {block_id: one for cache in self.caches for block_id, one in cache.cached_blocks().items()}

    def hit_rate(self) -> float:
        return self._num_found / max(1, self._num_looked_up)
