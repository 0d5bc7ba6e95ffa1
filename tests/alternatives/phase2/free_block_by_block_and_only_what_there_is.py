"""`free` calls nothing for a request without blocks, and frees one block per call."""

from mini_vllm.core.request import Request
from solutions.phase2_block_pool import PagedKVCacheManager as Given


class PagedKVCacheManager(Given):
    def free(self, request: Request, num_computed_tokens: int) -> None:
        if request.request_id not in self.req_to_blocks:
            return
        table = self.req_to_blocks.pop(request.request_id)
        done = num_computed_tokens // self.block_size
        never = table[done:]
        if never:
            self.prefix_cache.drop_uncomputed(never)
        for block_id in reversed(table):
            self.block_pool.free_blocks([block_id])
