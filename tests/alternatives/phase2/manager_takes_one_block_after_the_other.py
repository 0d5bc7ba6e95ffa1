"""Counts what is missing in a loop and takes blocks one by one; helper methods for each stage."""

from collections import defaultdict
from collections.abc import Sequence

from mini_vllm.core.interfaces import PrefixCache
from mini_vllm.core.request import Request
from solutions.phase2_block_pool import BlockPool


class PagedKVCacheManager:
    def __init__(self, num_gpu_blocks: int, block_size: int, prefix_cache: PrefixCache) -> None:
        self.block_size, self.prefix_cache = block_size, prefix_cache
        self.num_usable_blocks = len(range(1, num_gpu_blocks))
        self.pool = BlockPool(num_gpu_blocks, prefix_cache)
        self.tables: defaultdict[str, list[int]] = defaultdict(list)

    num_free_blocks = property(lambda self: self.pool.free_queue.num_free_blocks)
    usage = property(lambda self: (self.num_usable_blocks - self.num_free_blocks) / self.num_usable_blocks)

    def get_computed_blocks(self, request: Request) -> list[int]:
        return [*self.prefix_cache.find_longest_cache_hit(request)]

    def allocate_slots(
        self,
        request: Request,
        num_new_tokens: int,
        hit_blocks: Sequence[int] = (),
        num_lookahead_tokens: int = 0,
    ) -> list[int] | None:
        computed = request.num_computed_tokens + self.block_size * len(hit_blocks)
        start = self.tables.get(request.request_id, hit_blocks)
        num_missing = 0
        while (len(start) + num_missing) * self.block_size < computed + num_new_tokens + num_lookahead_tokens:
            num_missing += 1
        if num_missing > len(set(self.pool.free_queue.block_ids()) - set(hit_blocks)):
            return None
        if request.request_id not in self.tables:
            self.prefix_cache.pin(request, hit_blocks, self.pool)
            self.tables[request.request_id].extend(hit_blocks)
        return self._extend(request, computed, computed + num_new_tokens, num_missing)

    def _extend(self, request: Request, before: int, after: int, num_missing: int) -> list[int]:
        table, new_blocks = self.tables[request.request_id], []
        for _ in range(num_missing):
            new_blocks += self.pool.get_new_blocks(1)
            table.append(new_blocks[-1])
        num_full = sum(end <= min(after, request.num_tokens) for end in self._ends(table))
        num_full_before = sum(end <= before for end in self._ends(table))
        if num_full > num_full_before:
            self.prefix_cache.cache_full_blocks(request, list(table), num_full_before, num_full)
        return new_blocks

    def _ends(self, table: Sequence[int]) -> list[int]:
        return [(index + 1) * self.block_size for index in range(len(table))]

    def free(self, request: Request, num_computed_tokens: int) -> None:
        table = self.tables.pop(request.request_id, [])
        first_incomplete = num_computed_tokens // self.block_size
        if table[first_incomplete:]:
            self.prefix_cache.drop_uncomputed(table[first_incomplete:])
        if table:
            self.pool.free_blocks(table[::-1])

    def block_ids(self, request_id: str) -> list[int]:
        return list(self.tables.get(request_id, []))

    def free_block_ids(self) -> list[int]:
        return self.pool.free_queue.block_ids()

    def ref_counts(self) -> dict[int, int]:
        held = filter(lambda block: block.ref_cnt > 0, self.pool.blocks)
        return dict(sorted(((block.block_id, block.ref_cnt) for block in held), reverse=True))
