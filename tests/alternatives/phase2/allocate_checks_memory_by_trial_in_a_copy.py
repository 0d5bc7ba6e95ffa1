"""Allocate checks memory by trial in a copy."""

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

    def allocate_slots(self, request, num_new_tokens, hit_blocks=(), num_lookahead_tokens=0):
        """Give the request blocks for `num_new_tokens` more tokens: all of them or none.

        Returns the ids of the blocks taken from the free queue, in order. An empty list is a success:
        the request's last block had room. None is a refusal, and nothing has changed.
        """
        hits = list(hit_blocks)
        admitting = request.request_id not in self.req_to_blocks
        table = hits if admitting else self.req_to_blocks[request.request_id]
        start = request.num_computed_tokens + self.block_size * len(hits)
        end = start + num_new_tokens
        capacity = len(table) * self.block_size
        missing = 0
        while capacity < end + num_lookahead_tokens:
            capacity += self.block_size
            missing += 1
        free = set(self.free_block_ids())
        if missing > len(free - set(hits)):
            return None
        if admitting:
            self.prefix_cache.pin(request, hits, self.block_pool)
            self.req_to_blocks[request.request_id] = table
        new = self.block_pool.get_new_blocks(missing)
        table.extend(new)
        known = min(end, request.num_tokens)
        if known // self.block_size - start // self.block_size > 0:
            self.prefix_cache.cache_full_blocks(request, table, start // self.block_size, known // self.block_size)
        return new

    def free(self, request: Request, num_computed_tokens: int) -> None:
        """Take back all blocks of the request, last block first. A request without blocks is fine."""
        table = self.req_to_blocks.pop(request.request_id, [])
        self.prefix_cache.drop_uncomputed(table[num_computed_tokens // self.block_size :])
        self.block_pool.free_blocks(table[::-1])

    def block_ids(self, request_id: str) -> list[int]:
        """Return the request's block table; empty if it holds nothing."""
        return self.req_to_blocks.get(request_id, [])

    def free_block_ids(self) -> list[int]:
        """Return the free queue, front first. For pictures and checks, not for the hot path."""
        return self.block_pool.free_queue.block_ids()

    def ref_counts(self) -> dict[int, int]:
        """Return block id to number of holders, for the blocks somebody holds."""
        return {block.block_id: block.ref_cnt for block in self.block_pool.blocks if block.ref_cnt}
