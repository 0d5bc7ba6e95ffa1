"""`block_ids` returns a copy; `ref_counts` lists the blocks in another order."""

from solutions.phase2_block_pool import PagedKVCacheManager as Given


class PagedKVCacheManager(Given):
    def block_ids(self, request_id: str) -> list[int]:
        return [] if request_id not in self.req_to_blocks else self.req_to_blocks[request_id].copy()

    def ref_counts(self) -> dict[int, int]:
        counts: dict[int, int] = {}
        for block in self.block_pool.blocks:
            if block.ref_cnt != 0:
                counts[block.block_id] = block.ref_cnt
        return dict(sorted(counts.items(), reverse=True))
