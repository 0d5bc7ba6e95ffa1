"""A KV cache for layer groups over one pool, with a block table per group; frees blocks outside windows."""

from collections.abc import Sequence
from functools import partial

from mini_vllm.core.block import NULL_BLOCK_ID
from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.interfaces import PrefixCache
from mini_vllm.core.request import Request
from mini_vllm.electives.windows.counted_pool import CountedPool
from mini_vllm.electives.windows.grouped_prefix_cache import GroupedPrefixCache
from mini_vllm.electives.windows.window_functions import Tables, WindowFunctions


class GroupedKVCacheManager:
    """A `KVCacheManager` with one table per group. (vLLM: `KVCacheCoordinator`, `SlidingWindowManager`.)

    `block_ids` returns the table of the first group, and `block_tables` returns all tables. The null block replaces a
    block that has left the window or was not needed for the hit. The last `num_uncertain_tokens` computed tokens are
    drafts that may still be rejected.
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
        self.windows, self.has_windows = windows, any(windows)
        # phase 2 uses a different name, so that this code cannot be copied as an answer to its tasks
        self.layered_cache = prefix_cache
        self.grouped = grouped
        self.tables = tables
        self.num_uncertain_tokens = num_uncertain_tokens
        self.num_unsettled_tokens = 0  # number of final tokens whose blocks must not be cached yet

    @property
    def num_free_blocks(self) -> int:
        return self.pool.num_free_blocks

    def max_held_blocks(self, num_tokens: int, max_num_new_tokens: int) -> int:
        """Return how many blocks a request may hold at once while it grows to `num_tokens` tokens."""
        whole = cdiv(num_tokens, self.block_size)
        reach = ((whole if w is None else cdiv(w - 1 + max_num_new_tokens, self.block_size) + 1) for w in self.windows)
        return sum(min(whole, one) for one in reach)

    def get_computed_blocks(self, request: Request) -> list[int]:
        return self.layered_cache.find_longest_cache_hit(request)

    def allocate_slots(
        self, request: Request, num_new_tokens: int, hit_blocks: Sequence[int] = (), num_lookahead_tokens: int = 0
    ) -> list[int] | None:
        held = self.tables.get(request.request_id)
        tables = self._hit_tables(request, hit_blocks) if held is None else held
        num_tokens = request.num_computed_tokens + len(hit_blocks) * self.block_size + num_new_tokens
        return self._allocate(request, tables, num_tokens, num_new_tokens, num_lookahead_tokens)

    def _allocate(
        self, request: Request, tables: Tables, num_tokens: int, num_new_tokens: int, num_lookahead_tokens: int
    ) -> list[int] | None:
        """Extend a request's tables, already held or taken from its hit, to `num_tokens` tokens plus the lookahead."""
        pin = None
        if request.request_id not in self.tables:
            pin = partial(self.layered_cache.pin, request, pool=self.pool)
        elif self.has_windows:
            # Free them even if the allocation fails below, because blocks outside the window are never read again.
            for table, window in zip(tables, self.windows, strict=True):
                if window is not None:
                    self._leave_window(request, table, window)
        num_blocks = cdiv(num_tokens + num_lookahead_tokens, self.block_size)
        new_blocks = self.functions.allocate_groups(tables, num_blocks, self.pool, pin)
        if new_blocks is None:
            return None
        self.tables[request.request_id] = tables
        num_known = min(num_tokens, request.num_tokens) - self.num_unsettled_tokens
        num_cached = self._num_cached(request, num_tokens - num_new_tokens)
        num_full = num_known // self.block_size
        if num_full > num_cached:
            self.layered_cache.cache_full_blocks(request, tables[0], num_cached, num_full)
        return new_blocks[0]

    def _num_cached(self, request: Request, num_computed_tokens: int) -> int:
        """Return how many of the request's first blocks had entered the prefix cache before this step."""
        return num_computed_tokens // self.block_size

    def _leave_window(self, request: Request, table: list[int], window: int) -> None:
        num_certain_tokens = request.num_computed_tokens - self.num_uncertain_tokens
        self.functions.free_outside_window(table, window, num_certain_tokens, self.block_size, self.pool)

    def num_wanted(self, request: Request, num_tokens: int, hit_blocks: Sequence[int]) -> int:
        """Return how many free blocks a request needs to reach `num_tokens` tokens, including the free blocks in its
        hit."""
        held, num_blocks = self.tables.get(request.request_id), cdiv(num_tokens, self.block_size)
        tables = self._hit_tables(request, hit_blocks) if held is None else held
        num_free_hits = sum(map(self.pool.num_free_among, tables)) if held is None else 0
        return sum(max(0, num_blocks - len(table)) for table in tables) + num_free_hits

    def _hit_tables(self, request: Request, hit_blocks: Sequence[int]) -> Tables:
        if self.grouped is None or not hit_blocks:
            return tuple([] for _ in self.windows)
        return self.grouped.find_hit_of_each_group(request, len(hit_blocks) * self.block_size)

    def free(self, request: Request, num_computed_tokens: int) -> None:
        for table in self.tables.pop(request.request_id, ()):
            held, uncomputed = table[::-1], table[num_computed_tokens // self.block_size :]
            if self.has_windows:
                held, uncomputed = ([one for one in ids if one != NULL_BLOCK_ID] for ids in (held, uncomputed))
            if uncomputed:
                self.layered_cache.drop_uncomputed(uncomputed)
            self.pool.free_blocks(held)

    def block_ids(self, request_id: str) -> list[int]:
        return self.tables[request_id][0] if request_id in self.tables else []

    def block_tables(self, request_id: str) -> Tables:
        """Return the request's table for each group; empty if the request has no blocks."""
        return self.tables.get(request_id, ())

    def free_block_ids(self) -> list[int]:
        return list(self.pool.free_ids)

    def ref_counts(self) -> dict[int, int]:
        return {block_id: count for block_id, count in enumerate(self.pool.ref_counts) if count}
