"""A refused request keeps an empty table, which `allocate_slots` takes for none."""

from collections.abc import Sequence

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.request import Request
from solutions.phase2_block_pool import PagedKVCacheManager as Given


class PagedKVCacheManager(Given):
    def allocate_slots(
        self,
        request: Request,
        num_new_tokens: int,
        hit_blocks: Sequence[int] = (),
        num_lookahead_tokens: int = 0,
    ) -> list[int] | None:
        table = self.req_to_blocks.setdefault(request.request_id, [])
        if not table:
            table.extend(hit_blocks)
        num_computed_tokens = request.num_computed_tokens + len(hit_blocks) * self.block_size
        num_tokens = num_computed_tokens + num_new_tokens
        num_needed = max(0, cdiv(num_tokens + num_lookahead_tokens, self.block_size) - len(table))
        if num_needed + sum(self.block_pool.blocks[b].ref_cnt == 0 for b in hit_blocks) > self.num_free_blocks:
            if len(table) == len(hit_blocks):
                table.clear()
            return None
        if len(table) == len(hit_blocks):
            self.prefix_cache.pin(request, hit_blocks, self.block_pool)
        new_blocks = self.block_pool.get_new_blocks(num_needed)
        table += new_blocks
        num_full = min(num_tokens, request.num_tokens) // self.block_size
        if num_full > num_computed_tokens // self.block_size:
            self.prefix_cache.cache_full_blocks(request, table, num_computed_tokens // self.block_size, num_full)
        return new_blocks
