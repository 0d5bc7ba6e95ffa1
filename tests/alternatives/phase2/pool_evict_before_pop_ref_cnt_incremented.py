"""Pool: evict before pop, ref_cnt incremented."""

from collections.abc import Sequence

from mini_vllm.core.block import KVCacheBlock
from solutions.phase2_block_pool import FreeKVCacheBlockQueue


class BlockPool:
    """All blocks of the KV cache, their reference counts and the free queue.

    Block 0 is the null block: a valid id for padding, held by nobody and never free.
    """

    def __init__(self, num_gpu_blocks, prefix_cache):
        self.num_gpu_blocks = num_gpu_blocks
        self.blocks = tuple(KVCacheBlock(block_id=i) for i in range(num_gpu_blocks))
        self.null_block = self.blocks[0]
        self.free_queue = FreeKVCacheBlockQueue(list(self.blocks[1:]))
        self.prefix_cache = prefix_cache

    def get_new_blocks(self, num_blocks):
        """Hand out the `num_blocks` blocks that have been free longest; what they held is forgotten."""
        taken = [self.free_queue.popleft() for _ in range(num_blocks)]
        for block in taken:
            self.prefix_cache.evict(block.block_id)
            block.ref_cnt += 1
        return [block.block_id for block in taken]

    def touch(self, block_id: int) -> None:
        """Add a holder to a block; out of the free queue with it if it lay there."""
        block = self.blocks[block_id]
        if block.ref_cnt == 0:
            self.free_queue.remove(block)
        block.ref_cnt += 1

    def free_blocks(self, block_ids: Sequence[int]) -> None:
        """Take one holder off each block, in this order; those without a holder go to the back."""
        for block_id in block_ids:
            block = self.blocks[block_id]
            block.ref_cnt -= 1
            if block.ref_cnt == 0:
                self.free_queue.append(block)
