"""KV cache for groups of layers over one pool: a block table and hashes per group, and freeing outside windows."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from mini_vllm.core.block import NULL_BLOCK_ID
from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.interfaces import BlockPool, PrefixCache, WholeBlockPool
from mini_vllm.core.request import Request
from mini_vllm.electives.windows.window_functions import Tables, WindowFunctions


class NamedBlocks:
    """Remembers the block that one group's phase 4 finds for each hash.

    A lookup reads one dict entry per block, which is refreshed when a block with its hash enters or leaves the cache.
    """

    def __init__(self, cache: PrefixCache, block_size: int) -> None:
        self.cache = cache
        # Phase 4 looks up prefixes, so a request with a single block hash finds only this block. The request has one
        # token more than the block, because the last token of a request is never a hit.
        self._asking = Request("", [0] * (block_size + 1))
        self.of_hash: dict[bytes, int] = {}
        self._hash_of_block: dict[int, bytes] = {}

    def enter(self, block_ids: Sequence[int], block_hashes: Sequence[bytes]) -> None:
        """Refresh the entries of blocks that were just added to phase 4's cache, with their hashes."""
        self._hash_of_block.update(zip(block_ids, block_hashes, strict=True))
        self._ask(block_hashes)

    def evict(self, block_id: int) -> bool:
        is_evicted = self.cache.evict(block_id)
        self.leave([block_id])
        return is_evicted

    def leave(self, block_ids: Iterable[int]) -> None:
        """Refresh the entries of blocks that were just removed from phase 4's cache."""
        left = (self._hash_of_block.pop(block_id, None) for block_id in block_ids)
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

    `windows` holds the number of tokens that each group's attention reaches, the newest included. None is full
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
        """Return each group's blocks of the longest hit that all groups have, equally many per group."""
        self.update_block_hashes(request)
        block_hashes = request.block_hashes[: max_num_tokens // self.block_size]
        cached = [[*map(named.of_hash.get, block_hashes)] for named in self.named]
        return self.functions.find_common_hit(cached, self.windows, self.block_size)

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
        for group, table in enumerate(self.tables[request.request_id]):
            num_null = table[num_cached_blocks:num_full_blocks].count(NULL_BLOCK_ID)  # null blocks come first
            self.enter(group, request, table, num_cached_blocks + num_null, num_full_blocks)

    def enter(self, group: int, request: Request, table: list[int], first: int, end: int) -> None:
        """Enter blocks `first` to `end - 1` of a group's table in its cache."""
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


class CountedPool:
    """Phase 2's `BlockPool` with reference counts and the free block ids, which are in the free queue's order."""

    def __init__(self, inner: WholeBlockPool, num_gpu_blocks: int) -> None:
        self.inner = inner
        self.ref_counts = [0] * num_gpu_blocks
        self.free_ids = dict.fromkeys(range(1, num_gpu_blocks))

    @property
    def num_free_blocks(self) -> int:
        return len(self.free_ids)

    def is_free(self, block_id: int) -> bool:
        return block_id in self.free_ids

    def num_free_among(self, block_ids: Sequence[int]) -> int:
        return sum(map(self.free_ids.__contains__, block_ids))

    def get_new_blocks(self, num_blocks: int) -> list[int]:
        block_ids = self.inner.get_new_blocks(num_blocks) if num_blocks > 0 else []
        for block_id in block_ids:
            del self.free_ids[block_id]
            self.ref_counts[block_id] = 1
        return block_ids

    def touch(self, block_id: int) -> None:
        self.inner.touch(block_id)
        self.touched([block_id])

    def touched(self, block_ids: Sequence[int]) -> None:
        """Count one more holder of each block; phase 2's pool was told already."""
        counts = self.ref_counts
        for block_id in block_ids:
            counts[block_id] += 1
        if not self.free_ids.keys().isdisjoint(block_ids):
            for block_id in block_ids:
                self.free_ids.pop(block_id, None)

    def free_blocks(self, block_ids: Sequence[int]) -> None:
        self.inner.free_blocks(block_ids)
        counts = self.ref_counts
        for block_id in block_ids:
            counts[block_id] -= 1
            if not counts[block_id]:
                self.free_ids[block_id] = None


class GroupedKVCacheManager:
    """A `KVCacheManager` with one table per group. (vLLM: `KVCacheCoordinator`, `SlidingWindowManager`.)

    `block_ids` returns the table of the first group, `block_tables` all tables. The null block replaces a block that
    has left the window or was not needed for the hit. The last `num_uncertain_tokens` computed tokens are drafts that
    may still be rejected.
    """

    def __init__(
        self,
        functions: WindowFunctions,
        pool: CountedPool,
        block_size: int,
        windows: Sequence[int | None],
        prefix_cache: PrefixCache,
        grouped: GroupedPrefixCache | None,
        tables: dict[str, Tables],
        num_uncertain_tokens: int,
    ) -> None:
        self.functions = functions
        self.pool = pool
        self.block_size = block_size
        self.num_usable_blocks = pool.num_free_blocks
        self.windows = windows
        self.layered_cache = prefix_cache  # not phase 2's name, so that methods here cannot solve phase 2's tasks
        self.grouped = grouped
        self.tables = tables
        self.num_uncertain_tokens = num_uncertain_tokens
        self.num_unsettled_tokens = 0  # number of last tokens whose blocks must not enter the cache yet
        self.counts_entries = False  # whether the cache records which blocks of a request have entered it

    @property
    def num_free_blocks(self) -> int:
        return self.pool.num_free_blocks

    def max_held_blocks(self, num_tokens: int, max_num_new_tokens: int) -> int:
        """Return how many blocks a request may hold at once on its way to `num_tokens` tokens."""
        whole = cdiv(num_tokens, self.block_size)
        reach = ((whole if w is None else cdiv(w - 1 + max_num_new_tokens, self.block_size) + 1) for w in self.windows)
        return sum(min(whole, one) for one in reach)

    def get_computed_blocks(self, request: Request) -> list[int]:
        return self.layered_cache.find_longest_cache_hit(request)

    def allocate_slots(
        self, request: Request, num_new_tokens: int, hit_blocks: Sequence[int] = (), num_lookahead_tokens: int = 0
    ) -> list[int] | None:
        held = self.tables.get(request.request_id)
        # Freed even if the request is refused below, because blocks outside the window are never read again.
        for table, window in zip(held or (), self.windows, strict=held is not None):
            if window is not None:
                self._leave_window(request, table, window)
        num_computed_tokens = request.num_computed_tokens + len(hit_blocks) * self.block_size
        num_tokens = num_computed_tokens + num_new_tokens
        num_blocks = cdiv(num_tokens + num_lookahead_tokens, self.block_size)
        tables = self._hit_tables(request, hit_blocks) if held is None else held
        pin = partial(self._pin, request) if held is None else None
        new_blocks = self.functions.allocate_groups(tables, num_blocks, self.pool, pin)
        if new_blocks is None:
            return None
        self.tables[request.request_id] = tables
        num_known = min(num_tokens, request.num_tokens) - self.num_unsettled_tokens
        num_cached = 0 if self.counts_entries else num_computed_tokens // self.block_size
        num_full = num_known // self.block_size
        if num_full > num_cached:
            self.layered_cache.cache_full_blocks(request, tables[0], num_cached, num_full)
        return new_blocks[0]

    def _pin(self, request: Request, block_ids: list[int]) -> None:
        self.layered_cache.pin(request, block_ids, self.pool.inner)
        self.pool.touched([one for one in block_ids if one != NULL_BLOCK_ID] if self.grouped else block_ids)

    def _leave_window(self, request: Request, table: list[int], window: int) -> None:
        num_certain_tokens = request.num_computed_tokens - self.num_uncertain_tokens
        self.functions.free_outside_window(table, window, num_certain_tokens, self.block_size, self.pool)

    def _hit_tables(self, request: Request, hit_blocks: Sequence[int]) -> Tables:
        if self.grouped is None or not hit_blocks:
            return tuple([] for _ in self.windows)
        return self.grouped.find_hit_of_each_group(request, len(hit_blocks) * self.block_size)

    def free(self, request: Request, num_computed_tokens: int) -> None:
        for table in self.tables.pop(request.request_id, ()):
            held, uncomputed = table[::-1], table[num_computed_tokens // self.block_size :]
            if NULL_BLOCK_ID in table:
                held, uncomputed = ([one for one in ids if one != NULL_BLOCK_ID] for ids in (held, uncomputed))
            if uncomputed:
                self.layered_cache.drop_uncomputed(uncomputed)
            self.pool.free_blocks(held)

    def block_ids(self, request_id: str) -> list[int]:
        return self.tables[request_id][0] if request_id in self.tables else []

    def block_tables(self, request_id: str) -> Tables:
        """Return the request's table of each group; empty if the request holds no block."""
        return self.tables.get(request_id, ())

    def free_block_ids(self) -> list[int]:
        return list(self.pool.free_ids)

    def ref_counts(self) -> dict[int, int]:
        return {block_id: count for block_id, count in enumerate(self.pool.ref_counts) if count}
