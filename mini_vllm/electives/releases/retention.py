"""A prefix cache that stores only those blocks of a sliding window from which a later request can continue."""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Literal

from mini_vllm.core.interfaces import PrefixCache
from mini_vllm.core.request import Request
from mini_vllm.electives.releases.release_functions import ReleaseFunctions
from mini_vllm.electives.windows.grouped_prefix_cache import GroupedPrefixCache
from mini_vllm.electives.windows.window_functions import Tables, WindowFunctions


class RetainedWindows(GroupedPrefixCache):
    """A `GroupedPrefixCache` that omits most window blocks. (vLLM: `SlidingWindowManager.reachable_block_mask`.)

    Phase 14's `reachable_blocks` chooses the blocks. The junction is the length, in blocks, of the longer hit that only
    full attention had. With the interval "all" every block enters the cache.
    """

    def __init__(
        self,
        functions: WindowFunctions,
        caches: Sequence[PrefixCache],
        block_size: int,
        windows: Sequence[int | None],
        tables: Mapping[str, Tables],
        interval: int | Literal["all"],
        releases: ReleaseFunctions,
    ) -> None:
        super().__init__(functions, caches, block_size, windows, tables)
        self.interval = interval
        self.reachable_blocks = releases.reachable_blocks
        self.junctions: dict[str, int] = {}

    def find_longest_cache_hit(self, request: Request) -> list[int]:
        hit_blocks = super().find_longest_cache_hit(request)
        if self.windows[0] is None:
            block_hashes = request.block_hashes[: (request.num_tokens - 1) // self.block_size]
            num_full = sum(1 for _ in takewhile(self.named[0].of_hash.__contains__, block_hashes))
            self.junctions[request.request_id] = num_full if num_full > len(hit_blocks) else 0
        return hit_blocks

    def enter(self, group: int, request: Request, table: list[int], first: int, end: int) -> None:
        window = self.windows[group]
        if window is None or self.interval == "all":
            super().enter(group, request, table, first, end)
            return
        reachable = self.reachable_blocks(
            first,
            end,
            num_prompt_tokens=request.num_prompt_tokens,
            junction=self.junctions.get(request.request_id, 0),
            window=window,
            block_size=self.block_size,
            interval=self.interval,
        )
        for index in reachable:
            super().enter(group, request, table, index, index + 1)
