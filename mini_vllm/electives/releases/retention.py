"""A prefix cache that keeps only those blocks of a sliding window from which a later request can continue."""

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Literal

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.interfaces import PrefixCache
from mini_vllm.core.request import Request
from mini_vllm.electives.windows.grouped_kv_cache import GroupedPrefixCache
from mini_vllm.electives.windows.window_functions import Tables, WindowFunctions


class RetainedWindows(GroupedPrefixCache):
    """A `GroupedPrefixCache` that omits most window blocks. (vLLM: `SlidingWindowManager.reachable_block_mask`.)

    A hit needs the blocks of one window before its end, so these enter the cache. A hit can end after the last whole
    block before the last prompt token, or at the junction up to which only full attention had a hit. With an interval
    of r > 0 tokens, a hit can also end at every r-th token.
    """

    def __init__(
        self,
        functions: WindowFunctions,
        caches: Sequence[PrefixCache],
        block_size: int,
        windows: Sequence[int | None],
        tables: Mapping[str, Tables],
        interval: int | Literal["all"],
    ) -> None:
        super().__init__(functions, caches, block_size, windows, tables)
        self.num_blocks_apart = None if interval == "all" else interval // block_size
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
        if window is None or self.num_blocks_apart is None:
            super().enter(group, request, table, first, end)
            return
        num_needed = cdiv(window - 1, self.block_size)
        ends = ((request.num_prompt_tokens - 1) // self.block_size, self.junctions.get(request.request_id, 0))
        for index in range(first, end):
            apart = self.num_blocks_apart
            is_before_interval = apart > 0 and index % apart >= apart - num_needed
            if is_before_interval or any(one - num_needed <= index < one for one in ends):
                super().enter(group, request, table, index, index + 1)
