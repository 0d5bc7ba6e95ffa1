"""The guard hands out free blocks one by one, until every request is served or none is left."""

from collections.abc import Sequence

from mini_vllm.core.interfaces import KVCacheManager
from mini_vllm.core.request import Request
from solutions.phase5_chunked_prefill import ChunkedPrefillPolicy as Given


class ChunkedPrefillPolicy(Given):
    def admits(
        self, request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: KVCacheManager
    ) -> bool:
        if not self.admission_guard:
            return True
        free = [block_id for block_id in kv.free_block_ids() if block_id not in hit_blocks]
        tables = [list(hit_blocks)] + [list(kv.block_ids(other.request_id)) for other in running]
        goals = [request.num_tokens] + [other.num_tokens + kv.block_size for other in running]
        for table, goal in zip(tables, goals, strict=True):
            while len(table) * kv.block_size < goal:
                if not free:
                    return False
                table.append(free.pop())
        return True
