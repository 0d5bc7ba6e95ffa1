"""The KV cache manager of releases after 0.13.0: changes how many blocks admission requires and how freed blocks are
ordered."""

from collections.abc import Callable, Sequence
from typing import Any

from mini_vllm.core.block import NULL_BLOCK_ID
from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.interfaces import PrefixCache
from mini_vllm.core.request import RUNNING, Request
from mini_vllm.electives.prefix_caches import DelayedCommits
from mini_vllm.electives.releases.entries import CountedEntries
from mini_vllm.electives.releases.freed_first import FreedFirstPool
from mini_vllm.electives.releases.release_functions import RoomAsked
from mini_vllm.electives.releases.retention import RetainedWindows
from mini_vllm.electives.releases.step_state import StepState
from mini_vllm.electives.windows.grouped_kv_cache import GroupedKVCacheManager
from mini_vllm.electives.windows.window_functions import GroupPool, Tables, WindowFunctions


class NewerKVCacheManager(GroupedKVCacheManager):
    """A `KVCacheManager` over phase 2's pool, with one table per group of layers. Without windows there is one
    group."""

    def __init__(
        self,
        step: StepState,
        functions: WindowFunctions,
        pool: FreedFirstPool,
        windows: Sequence[int | None],
        prefix_cache: PrefixCache,
        grouped: RetainedWindows | None,
        tables: dict[str, Tables],
        entries: CountedEntries,
    ) -> None:
        config = step.config
        super().__init__(functions, pool, config.block_size, windows, prefix_cache, grouped, tables, 0)
        self.step, self.rules, self.entries = step, step.rules, entries
        self.freed_first, self.retained = pool, grouped
        (self.max_model_len, self.num_gpu_blocks), in_flight = config.sizes, 1 + config.async_scheduling
        self.watermark: float = config.setting("watermark")
        self.reserves = self.rules.whole_sequence_must_fit and config.setting("scheduler_reserve_full_isl")
        most_in_flight = config.max_num_batched_tokens * in_flight
        # How many blocks a request may need in each group, ever and at once.
        self.longest = [cdiv(self.max_model_len, self.block_size)] * len(windows)
        self.most_at_once = [
            longest
            if window is None
            else cdiv(min(window - 1 + most_in_flight, self.max_model_len), self.block_size) + 1
            for window, longest in zip(windows, self.longest, strict=True)
        ]
        step.free_leaving, step.num_groups = self.free_leaving, len(windows)
        self.num_unsettled_tokens = step.num_unsettled_tokens

    def allocate_slots(
        self, request: Request, num_new_tokens: int, hit_blocks: Sequence[int] = (), num_lookahead_tokens: int = 0
    ) -> list[int] | None:
        if request.status is RUNNING:
            if not self.has_windows:  # shortcut, as in phase 2: most decode tokens fit into the last block
                room = self.block_size - num_new_tokens - num_lookahead_tokens
                if 0 < request.num_computed_tokens % self.block_size < room:
                    return []
            return super().allocate_slots(request, num_new_tokens, hit_blocks, num_lookahead_tokens)
        is_load = isinstance(self.layered_cache, DelayedCommits) and self.layered_cache.is_delayed
        if self.rules.lookahead_at_admission and not is_load:
            num_lookahead_tokens = self.step.num_lookahead_tokens
        num_tokens = request.num_computed_tokens + len(hit_blocks) * self.block_size + num_new_tokens
        num_lookahead_tokens = min(num_lookahead_tokens, self.max_model_len - num_tokens)
        tables = self.tables.get(request.request_id) or self._hit_tables(request, hit_blocks)
        if not self._fits(request, tables, num_tokens + num_lookahead_tokens, is_load=is_load):
            return None
        if is_load:
            self.step.prompts[request.request_id] = request
        return self._allocate(request, tables, num_tokens, num_new_tokens, num_lookahead_tokens)

    def free(self, request: Request, num_computed_tokens: int) -> None:
        if request.is_finished and self.step.is_in_flight(request):
            self.step.leaving[request.request_id] = self.step.num_planned
            return
        super().free(request, num_computed_tokens)
        self.entries.forget(request.request_id)
        if self.retained is not None:
            self.retained.junctions.pop(request.request_id, None)

    def free_leaving(self) -> None:
        """Free the blocks of ended requests in the order they ended, once no step in flight can write to them."""
        for name in [name for name, last in self.step.leaving.items() if last <= self.step.num_done]:
            del self.step.leaving[name]
            blocks = [block_id for table in self.tables.pop(name, ()) for block_id in table]
            self.pool.free_blocks([block_id for block_id in reversed(blocks) if block_id != NULL_BLOCK_ID])

    def _num_cached(self, request: Request, num_computed_tokens: int) -> int:
        return self.entries.num_entered.get(request.request_id, 0)

    def _leave_window(self, request: Request, table: list[int], window: int) -> None:
        num_tokens = request.num_computed_tokens - self.step.in_flight[request.request_id]
        with self.freed_first.together():
            self.functions.free_outside_window(table, window, num_tokens, self.block_size, self.pool)

    def free_block_ids(self) -> list[int]:
        return self.freed_first.block_ids()

    def _fits(self, request: Request, tables: Tables, num_tokens: int, *, is_load: bool) -> bool:
        """Return whether phase 14 finds enough free blocks for a waiting request to reach `num_tokens` tokens."""
        step = self.step
        num_free_hits = 0 if request.request_id in self.tables else sum(map(self.pool.num_free_among, tables))
        asked = RoomAsked(
            num_for_step=self._num_missing(tables, num_tokens, self.longest) + num_free_hits,
            num_for_sequence=self._num_for_sequence(request, tables) + num_free_hits if self.reserves else None,
            num_promised=self._num_promised(request) if step.prompts and (self.reserves or is_load) else 0,
            num_free=self.pool.num_free_blocks,
            num_gpu_blocks=self.num_gpu_blocks,
            watermark=self.watermark,
            is_load=is_load and self.rules.loads_leave_room,
            has_running=bool(step.running),
        )
        has_room = step.functions.has_room(asked)
        step.refused_room = None if has_room else asked
        return has_room

    def _num_for_sequence(self, request: Request, tables: Tables) -> int:
        return self._num_missing(tables, min(request.num_tokens, self.max_model_len), self.most_at_once)

    def _num_missing(self, tables: Tables, num_tokens: int, most_blocks: Sequence[int]) -> int:
        num_blocks, num_missing = cdiv(num_tokens, self.block_size), 0
        for table, most in zip(tables, most_blocks, strict=True):
            num_wanted = num_blocks if num_blocks < most else most
            if num_wanted > len(table):
                num_missing += num_wanted - len(table)
        return num_missing

    def _num_promised(self, request: Request) -> int:
        """Return how many blocks other admitted prompts still need.

        vLLM ignores these blocks for requests that load no K and V (`unreserved_prompts`). For a request that loads K
        and V, vLLM also counts the request itself (`own_reservation`).
        """
        nothing: Tables = tuple([] for _ in self.windows)
        return sum(
            self._num_for_sequence(other, self.tables.get(name, nothing))
            for name, other in self.step.prompts.items()
            if other is not request
        )

    def _hit_tables(self, request: Request, hit_blocks: Sequence[int]) -> Tables:
        if self.grouped is None:
            return ([*hit_blocks],) if len(self.windows) == 1 else super()._hit_tables(request, ())
        return super()._hit_tables(request, hit_blocks)


def allocate_table(
    tables: Tables, num_blocks: int, pool: GroupPool, pin: Callable[[list[int]], None] | None
) -> list[list[int]] | None:
    """Extend the only table of a model without sliding windows.

    Returns None if too few blocks are free. See `AllocateGroups`.
    """
    (table,) = tables
    num_needed, num_free = max(0, num_blocks - len(table)), pool.num_free_blocks
    # As in phase 2, free blocks in the hit are counted only if the result depends on them.
    if num_needed > num_free:
        return None
    if pin is not None:
        if num_needed + len(table) > num_free and num_needed + sum(map(pool.is_free, table)) > num_free:
            return None
        pin(table)
    new_blocks = pool.get_new_blocks(num_needed)
    table += new_blocks
    return [new_blocks]


def _unused(*arguments: Any, **named: Any) -> Any:
    raise AssertionError("not used by a model without sliding windows")


WITHOUT_WINDOWS = WindowFunctions(_unused, allocate_table, _unused, _unused)
