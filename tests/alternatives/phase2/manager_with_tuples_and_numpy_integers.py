"""Tables are tuples that are replaced, block ids are numpy integers, and the holders are counted from the tables."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from mini_vllm.core.interfaces import PrefixCache
from mini_vllm.core.request import Request
from solutions.phase2_block_pool import BlockPool


class PagedKVCacheManager:
    def __init__(self, num_gpu_blocks: int, block_size: int, prefix_cache: PrefixCache) -> None:
        self.num_usable_blocks = np.int64(num_gpu_blocks - 1)
        self.block_size = block_size
        self.prefix_cache = prefix_cache
        self.block_pool = BlockPool(num_gpu_blocks, prefix_cache)
        self.tables: dict[str, tuple[int, ...]] = {}

    @property
    def num_free_blocks(self) -> int:
        return np.int64(self.block_pool.free_queue.num_free_blocks)

    @property
    def usage(self) -> float:
        return np.float64(len(self.ref_counts()) / self.num_usable_blocks)

    def get_computed_blocks(self, request: Request) -> Sequence[int]:
        return tuple(self.prefix_cache.find_longest_cache_hit(request))

    def allocate_slots(
        self,
        request: Request,
        num_new_tokens: int,
        hit_blocks: Sequence[int] = (),
        num_lookahead_tokens: int = 0,
    ) -> list[int] | None:
        is_new = request.request_id not in self.tables
        table = tuple(hit_blocks) if is_new else self.tables[request.request_id]
        before = request.num_computed_tokens + (len(hit_blocks) * self.block_size if is_new else 0)
        after = before + num_new_tokens
        missing = max(0, math.ceil((after + num_lookahead_tokens) / self.block_size) - len(table))
        held = self.ref_counts()
        if missing + len([block_id for block_id in hit_blocks if block_id not in held]) > self.num_free_blocks:
            return None
        if is_new:
            self.prefix_cache.pin(request, table, self.block_pool)
        new_blocks = [np.int64(block_id) for block_id in self.block_pool.get_new_blocks(missing)]
        self.tables[request.request_id] = table = table + tuple(new_blocks)
        first, last = before // self.block_size, min(after, request.num_tokens) // self.block_size
        if first < last:
            self.prefix_cache.cache_full_blocks(request, table, first, last)
        return new_blocks

    def free(self, request: Request, num_computed_tokens: int) -> None:
        if request.request_id not in self.tables:
            return
        table = self.tables.pop(request.request_id)
        self.prefix_cache.drop_uncomputed(table[num_computed_tokens // self.block_size :])
        self.block_pool.free_blocks(tuple(reversed(table)))

    def block_ids(self, request_id: str) -> Sequence[int]:
        return self.tables.get(request_id, ())

    def free_block_ids(self) -> Sequence[int]:
        return np.array(self.block_pool.free_queue.block_ids(), dtype=np.int64)

    def ref_counts(self) -> dict[int, int]:
        return Counter(block_id for table in self.tables.values() for block_id in table)
