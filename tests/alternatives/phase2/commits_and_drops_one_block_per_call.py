"""Full blocks enter the prefix cache one per call, and uncomputed ones leave it one per call."""

from mini_vllm.core.cdiv import cdiv
from solutions.phase2_block_pool import PagedKVCacheManager as Given


class PagedKVCacheManager(Given):
    def allocate_slots(self, request, num_new_tokens, hit_blocks=(), num_lookahead_tokens=0):
        size, is_admission = self.block_size, request.request_id not in self.req_to_blocks
        table = self.req_to_blocks.get(request.request_id, list(hit_blocks))
        start = request.num_computed_tokens + len(hit_blocks) * size
        num_needed = max(0, cdiv(start + num_new_tokens + num_lookahead_tokens, size) - len(table))
        if num_needed > self.num_free_blocks - sum(not self.block_pool.blocks[b].ref_cnt for b in hit_blocks):
            return None
        if is_admission:
            self.prefix_cache.pin(request, hit_blocks, self.block_pool)
        new_blocks = self.block_pool.get_new_blocks(num_needed)
        self.req_to_blocks[request.request_id] = table + new_blocks
        for index in range(start // size, min(start + num_new_tokens, request.num_tokens) // size):
            self.prefix_cache.cache_full_blocks(request, self.req_to_blocks[request.request_id], index, index + 1)
        return new_blocks

    def free(self, request, num_computed_tokens):
        table = self.req_to_blocks.pop(request.request_id, [])
        for block_id in reversed(table[num_computed_tokens // self.block_size :]):
            self.prefix_cache.drop_uncomputed([block_id])
        for block_id in reversed(table):
            self.block_pool.free_blocks((block_id,))
