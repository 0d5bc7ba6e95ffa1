"""Ref counts kept in a Counter over the tables."""

from collections.abc import Sequence

from mini_vllm.core.request import Request
from mini_vllm.seams.interfaces import PrefixCache
from solutions.phase2_block_pool import BlockPool


class PagedKVCacheManager:
    """Block tables of the requests, over one pool."""

    def __init__(self, num_gpu_blocks: int, block_size: int, prefix_cache: PrefixCache) -> None:
        self.block_size = block_size
        self.num_usable_blocks = num_gpu_blocks - 1
        self.block_pool = BlockPool(num_gpu_blocks, prefix_cache)
        self.prefix_cache = prefix_cache
        self.req_to_blocks: dict[str, list[int]] = {}

    @property
    def num_free_blocks(self) -> int:
        """Length of the free queue."""
        return self.block_pool.free_queue.num_free_blocks

    @property
    def usage(self) -> float:
        """Share of the usable blocks that somebody holds, 0 to 1."""
        return 1 - self.num_free_blocks / self.num_usable_blocks

    def get_computed_blocks(self, request: Request) -> list[int]:
        """Return the ids of the cached blocks that hold the request's longest known prefix. Takes nothing."""
        return self.prefix_cache.find_longest_cache_hit(request)

    def allocate_slots(
        self,
        request: Request,
        num_new_tokens: int,
        hit_blocks: Sequence[int] = (),
        num_lookahead_tokens: int = 0,
    ) -> list[int] | None:
        """Give the request blocks for `num_new_tokens` more tokens: all of them or none.

        Returns the ids of the blocks taken from the free queue, in order. An empty list is a success:
        the request's last block had room. None is a refusal, and nothing has changed.
        """
        table = self.req_to_blocks.get(request.request_id)
        num_held = len(hit_blocks) if table is None else len(table)
        num_computed_tokens = request.num_computed_tokens + len(hit_blocks) * self.block_size
        num_tokens = num_computed_tokens + num_new_tokens
        num_needed = -(-(num_tokens + num_lookahead_tokens) // self.block_size) - num_held
        if num_needed > 0 or hit_blocks:
            num_free_hits = sum(self.block_pool.blocks[block_id].ref_cnt == 0 for block_id in hit_blocks)
            if num_needed + num_free_hits > self.num_free_blocks:
                return None
        if table is None:
            self.prefix_cache.pin(request, hit_blocks, self.block_pool)
            table = self.req_to_blocks[request.request_id] = list(hit_blocks)
        new_blocks = self.block_pool.get_new_blocks(num_needed)
        table += new_blocks
        num_cached_blocks = num_computed_tokens // self.block_size
        num_full_blocks = min(num_tokens, request.num_tokens) // self.block_size
        if num_full_blocks > num_cached_blocks:
            self.prefix_cache.cache_full_blocks(request, table, num_cached_blocks, num_full_blocks)
        return new_blocks

    def free(self, request: Request, num_computed_tokens: int) -> None:
        """Take back all blocks of the request, last block first. A request without blocks is fine."""
        table = self.req_to_blocks.pop(request.request_id, [])
        self.prefix_cache.drop_uncomputed(table[num_computed_tokens // self.block_size :])
        self.block_pool.free_blocks(table[::-1])

    def block_ids(self, request_id: str) -> list[int]:
        """Return the request's block table; empty if it holds nothing."""
        return [] if request_id not in self.req_to_blocks else self.req_to_blocks[request_id].copy()

    def free_block_ids(self) -> list[int]:
        """Return the free queue, front first. For pictures and checks, not for the hot path."""
        return self.block_pool.free_queue.block_ids()

    def ref_counts(self) -> dict[int, int]:
        """Return block id to number of holders, for the blocks somebody holds."""
        counts: dict[int, int] = {}
        for block in self.block_pool.blocks:
            if block.ref_cnt != 0:
                counts[block.block_id] = block.ref_cnt
        return dict(sorted(counts.items(), reverse=True))
