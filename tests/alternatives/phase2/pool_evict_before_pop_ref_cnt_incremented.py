"""The pool pops all blocks first, and evicts and counts them afterwards."""

from collections.abc import Sequence

from mini_vllm.core.block import KVCacheBlock
from solutions.phase2_block_pool import BlockPool as Given
from solutions.phase2_block_pool import FreeKVCacheBlockQueue


class BlockPool(Given):
    def __init__(self, num_gpu_blocks, prefix_cache):
        self.num_gpu_blocks = num_gpu_blocks
        self.blocks = tuple(KVCacheBlock(block_id=i) for i in range(num_gpu_blocks))
        self.null_block = self.blocks[0]
        self.free_queue = FreeKVCacheBlockQueue(list(self.blocks[1:]))
        self.prefix_cache = prefix_cache

    def get_new_blocks(self, num_blocks):
        taken = [self.free_queue.popleft() for _ in range(num_blocks)]
        for block in taken:
            self.prefix_cache.evict(block.block_id)
            block.ref_cnt += 1
        return [block.block_id for block in taken]

    def free_blocks(self, block_ids: Sequence[int]) -> None:
        for block_id in block_ids:
            block = self.blocks[block_id]
            block.ref_cnt -= 1
            if block.ref_cnt == 0:
                self.free_queue.append(block)
