"""Blocks are counted with `divmod`, tables are replaced instead of extended, the answer is a tuple."""

from solutions.phase2_block_pool import PagedKVCacheManager as Given


class PagedKVCacheManager(Given):
    def allocate_slots(self, request, num_new_tokens, hit_blocks=(), num_lookahead_tokens=0):
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
