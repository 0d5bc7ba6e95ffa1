"""A block table for each group of layers, over one pool; blocks that leave a window are freed."""

from collections.abc import Sequence

from mini_vllm.core.block import NULL_BLOCK_ID
from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.interfaces import PrefixCache
from mini_vllm.core.request import Request
from mini_vllm.core.windows.counted_pool import CountedPool
from mini_vllm.core.windows.grouped_prefix_cache import GroupedPrefixCache, Tables


class GroupedKVCacheManager:
    """A `KVCacheManager` with one table per group. (vLLM: `KVCacheCoordinator`, `SlidingWindowManager`.)

    `block_ids` returns the table of the first group, `block_tables` all of them. Where a block
    has left the window, or was not needed for the hit, the null block stands in the table.
    """

    def __init__(
        self,
        pool: CountedPool,
        block_size: int,
        windows: Sequence[int | None],
        prefix_cache: PrefixCache,
        grouped: GroupedPrefixCache | None,
        tables: dict[str, Tables],
    ) -> None:
        self.pool = pool
        self.block_size = block_size
        self.num_usable_blocks = len(pool.free_ids)
        self.windows = windows
        self.prefix_cache = prefix_cache
        self.grouped = grouped
        self.tables = tables

    @property
    def num_free_blocks(self) -> int:
        return len(self.pool.free_ids)

    def get_computed_blocks(self, request: Request) -> list[int]:
        return self.prefix_cache.find_longest_cache_hit(request)

    def allocate_slots(
        self, request: Request, num_new_tokens: int, hit_blocks: Sequence[int] = (), num_lookahead_tokens: int = 0
    ) -> list[int] | None:
        held = self.tables.get(request.request_id)
        # Even if the request is refused below: what has left the window is never read again.
        if held is not None:
            self._free_outside_window(held, request.num_computed_tokens)
        num_computed_tokens = request.num_computed_tokens + len(hit_blocks) * self.block_size
        num_tokens = num_computed_tokens + num_new_tokens
        num_blocks = cdiv(num_tokens + num_lookahead_tokens, self.block_size)
        tables = self._hit_tables(request, len(hit_blocks)) if held is None else held
        num_free_hits = sum(block_id in self.pool.free_ids for table in tables for block_id in table)
        num_needed = sum(num_blocks - len(table) for table in tables)
        if num_needed + num_free_hits > self.num_free_blocks:
            return None
        if held is None:
            self._pin(request, tables)
        new_blocks: list[int] = []
        for group, table in enumerate(tables):
            taken = self.pool.get_new_blocks(num_blocks - len(table))
            table += taken
            new_blocks += taken if group == 0 else []
        num_cached, num_full = (
            n // self.block_size for n in (num_computed_tokens, min(num_tokens, request.num_tokens))
        )
        if num_full > num_cached:
            self.prefix_cache.cache_full_blocks(request, tables[0], num_cached, num_full)
        return new_blocks

    def _hit_tables(self, request: Request, num_hit_blocks: int) -> Tables:
        if self.grouped is None or num_hit_blocks == 0:
            return tuple([] for _ in self.windows)
        return self.grouped.find_hit_of_each_group(request, num_hit_blocks * self.block_size)

    def _pin(self, request: Request, tables: Tables) -> None:
        self.tables[request.request_id] = tables
        for table in tables:
            self.prefix_cache.pin(request, table, self.pool)

    def _free_outside_window(self, tables: Tables, num_computed_tokens: int) -> None:
        """Free the blocks that the next token does not reach, last one first; those before them are gone already."""
        for table, window in zip(tables, self.windows, strict=True):
            num_skipped_tokens = 0 if window is None else num_computed_tokens - window + 1
            index = max(0, num_skipped_tokens) // self.block_size - 1
            while index >= 0 and table[index] != NULL_BLOCK_ID:
                self.pool.free_blocks([table[index]])
                table[index] = NULL_BLOCK_ID
                index -= 1

    def free(self, request: Request, num_computed_tokens: int) -> None:
        for table in self.tables.pop(request.request_id, ()):
            held = [block_id for block_id in table[::-1] if block_id != NULL_BLOCK_ID]
            uncomputed = table[num_computed_tokens // self.block_size :]
            self.prefix_cache.drop_uncomputed([block_id for block_id in uncomputed if block_id != NULL_BLOCK_ID])
            self.pool.free_blocks(held)

    def block_ids(self, request_id: str) -> list[int]:
        return self.tables[request_id][0] if request_id in self.tables else []

    def block_tables(self, request_id: str) -> Tables:
        """Return the request's table of each group; empty if it holds nothing."""
        return self.tables.get(request_id, ())

    def free_block_ids(self) -> list[int]:
        return list(self.pool.free_ids)

    def ref_counts(self) -> dict[int, int]:
        return dict(self.pool.ref_counts)
