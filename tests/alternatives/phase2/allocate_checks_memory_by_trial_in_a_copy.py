"""Memory is checked by removing the hit blocks from a copy of the free queue."""

from solutions.phase2_block_pool import PagedKVCacheManager as Given


class PagedKVCacheManager(Given):
    def allocate_slots(self, request, num_new_tokens, hit_blocks=(), num_lookahead_tokens=0):
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
