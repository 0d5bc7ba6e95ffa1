"""Manager: a refused one is told early, with divmod."""

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
        rid, size, hits = request.request_id, self.block_size, tuple(hit_blocks)
        fresh = rid not in self.req_to_blocks
        start = request.num_computed_tokens + size * len(hits)
        whole, rest = divmod(start + num_new_tokens + num_lookahead_tokens, size)
        have = len(hits) if fresh else len(self.req_to_blocks[rid])
        take = max(whole + bool(rest) - have, 0)
        pinned = [b for b in hits if self.block_pool.blocks[b].ref_cnt < 1]
        if len(pinned) + take > len(self.block_pool.free_queue.block_ids()):
            return None
        if fresh:
            self.req_to_blocks[rid] = [*hits]
            self.prefix_cache.pin(request, list(hits), self.block_pool)
        new = self.block_pool.get_new_blocks(take) if take else []
        self.req_to_blocks[rid] = self.req_to_blocks[rid] + new
        first, last = start // size, min(request.num_tokens, start + num_new_tokens) // size
        if first < last:
            self.prefix_cache.cache_full_blocks(request, list(self.req_to_blocks[rid]), first, last)
        return tuple(new)

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

    def usage_note(self):
        return f"{self.usage:.0%}"
