"""The prefix cache of several layer groups, with phase 4's hashes for each group and hits common to all groups."""

from collections.abc import Iterable, Mapping, Sequence

from mini_vllm.core.block import NULL_BLOCK_ID
from mini_vllm.core.interfaces import BlockPool, PrefixCache
from mini_vllm.core.request import Request
from mini_vllm.core.step_checks import check_hit
from mini_vllm.electives.windows.window_functions import Tables, WindowFunctions


class NamedBlocks:
    """Stores, for each hash, the block that one group's phase 4 cache finds.

    A lookup reads one dict entry per block, which is refreshed when a block with its hash enters or leaves the cache.
    """

    def __init__(self, cache: PrefixCache, block_size: int) -> None:
        self.cache = cache
        # Phase 4 looks up prefixes, so a request with a single block hash finds only this block. The request has one
        # more token than the block, because a request's last token is never a hit.
        self._asking = Request("", [0] * (block_size + 1))
        self.of_hash: dict[bytes, int] = {}
        self.hash_of_block: dict[int, bytes] = {}

    def enter(self, block_ids: Sequence[int], block_hashes: Sequence[bytes]) -> None:
        """Refresh the entries of blocks that were just added to phase 4's cache under these hashes."""
        self.hash_of_block.update(zip(block_ids, block_hashes, strict=True))
        self._ask(block_hashes)

    def evict(self, block_id: int) -> bool:
        is_evicted = self.cache.evict(block_id)
        self.leave([block_id])
        return is_evicted

    def leave(self, block_ids: Iterable[int]) -> None:
        """Refresh the entries of blocks that were just removed from phase 4's cache."""
        left = (self.hash_of_block.pop(block_id, None) for block_id in block_ids)
        self._ask([block_hash for block_hash in left if block_hash is not None])

    def _ask(self, block_hashes: Sequence[bytes]) -> None:
        for block_hash in block_hashes:
            self._asking.block_hashes = [block_hash]
            if hit := self.cache.find_longest_cache_hit(self._asking):
                self.of_hash[block_hash] = hit[0]
            else:
                self.of_hash.pop(block_hash, None)


class GroupedPrefixCache:
    """A `PrefixCache` for groups of layers. `caches` holds one of phase 4's prefix caches for each group.

    `windows` holds the number of tokens that each group's attention reaches, including the newest. None means full
    attention, and comes first. `tables` maps request ids to one block table per group; the KV cache manager updates it.
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
        self.named = [NamedBlocks(cache, block_size) for cache in caches]
        self.block_size = block_size
        self.windows = windows
        self.tables = tables
        self._num_looked_up = self._num_found = 0

    def update_block_hashes(self, request: Request) -> None:
        self.named[0].cache.update_block_hashes(request)

    def find_longest_cache_hit(self, request: Request) -> list[int]:
        return self.find_hit_of_each_group(request, request.num_tokens - 1)[0]

    def find_hit_of_each_group(self, request: Request, max_num_tokens: int) -> Tables:
        """Return each group's blocks for the longest hit that all groups share; all groups get equally long tables."""
        self.update_block_hashes(request)
        block_hashes = request.block_hashes[: max_num_tokens // self.block_size]
        cached = [[*map(named.of_hash.get, block_hashes)] for named in self.named]
        return self.functions.find_common_hit(cached, self.windows, self.block_size)

    def pin(self, request: Request, block_ids: Sequence[int], pool: BlockPool) -> None:
        held = [block_id for block_id in block_ids if block_id != NULL_BLOCK_ID]
        recorded = {one: named.hash_of_block[one] for named in self.named for one in held if one in named.hash_of_block}
        check_hit(request, block_ids, recorded, self.cached_blocks, num_null=len(block_ids) - len(held))
        for block_id in held:
            pool.touch(block_id)
        self._num_looked_up += request.num_tokens
        self._num_found += len(block_ids) * self.block_size

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        self.update_block_hashes(request)
        for group, table in enumerate(self.tables[request.request_id]):
            num_null = table[num_cached_blocks:num_full_blocks].count(NULL_BLOCK_ID)  # null blocks come first
            self.enter(group, request, table, num_cached_blocks + num_null, num_full_blocks)

    def enter(self, group: int, request: Request, table: list[int], first: int, end: int) -> None:
        """Enter blocks `first` to `end - 1` of a group's table into the group's cache."""
        named = self.named[group]
        named.cache.cache_full_blocks(request, table, first, end)
        named.enter(table[first:end], request.block_hashes[first:end])

    def evict(self, block_id: int) -> bool:
        return any(named.evict(block_id) for named in self.named)

    def drop_uncomputed(self, block_ids: Sequence[int]) -> None:
        for named in self.named:
            named.cache.drop_uncomputed(block_ids)
            named.leave(block_ids)

    def cached_blocks(self) -> dict[int, bytes]:
        return {block_id: one for named in self.named for block_id, one in named.cache.cached_blocks().items()}

    def hit_rate(self) -> float:
        return self._num_found / max(1, self._num_looked_up)
