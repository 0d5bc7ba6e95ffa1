"""The pool first finds the blocks that lose their last holder, and changes the free queue afterwards."""

from collections.abc import Sequence

from mini_vllm.core.block import KVCacheBlock
from mini_vllm.core.interfaces import PrefixCache
from solutions.phase2_block_pool import FreeKVCacheBlockQueue


class BlockPool:
    def __init__(self, num_gpu_blocks: int, prefix_cache: PrefixCache) -> None:
        self.blocks = tuple(map(KVCacheBlock, range(num_gpu_blocks)))
        self.free_queue = FreeKVCacheBlockQueue([block for block in self.blocks if block.block_id > 0])
        self.prefix_cache = prefix_cache

    def get_new_blocks(self, num_blocks: int) -> list[int]:
        taken = [self.free_queue.popleft() for _ in range(num_blocks)]
        for block in taken:
            self.prefix_cache.evict(block.block_id)
            block.ref_cnt += 1
        return [block.block_id for block in taken]

    def touch(self, block_id: int) -> None:
        block = self.blocks[block_id]
        block.ref_cnt += 1
        if block.ref_cnt == 1:
            self.free_queue.remove(block)

    def free_blocks(self, block_ids: Sequence[int]) -> None:
        orphans = []
        for block_id in block_ids:
            self.blocks[block_id].ref_cnt -= 1
            if not self.blocks[block_id].ref_cnt:
                orphans.append(self.blocks[block_id])
        for block in orphans:
            self.free_queue.append(block)
