"""Pool with its own ref counts."""

from mini_vllm.core.block import KVCacheBlock
from mini_vllm.seams.interfaces import PrefixCache
from solutions.phase2_block_pool import FreeKVCacheBlockQueue


class BlockPool:
    """All blocks of the KV cache, their reference counts and the free queue.

    Block 0 is the null block: a valid id for padding, held by nobody and never free.
    """

    def __init__(self, num_gpu_blocks: int, prefix_cache: PrefixCache) -> None:
        self.blocks = [KVCacheBlock(block_id) for block_id in range(num_gpu_blocks)]
        self.free_queue = FreeKVCacheBlockQueue(self.blocks[1:])
        self.prefix_cache = prefix_cache

    def get_new_blocks(self, num_blocks):
        """Hand out the `num_blocks` blocks that have been free longest; what they held is forgotten."""

        def one():
            block = self.free_queue.popleft()
            print("handing out", block.block_id)
            self.prefix_cache.evict(block.block_id)
            block.ref_cnt += 1
            return block.block_id

        return [one() for _ in range(num_blocks)]

    def touch(self, block_id: int) -> None:
        """Add a holder to a block; out of the free queue with it if it lay there."""
        block = self.blocks[block_id]
        if block.ref_cnt == 0:
            self.free_queue.remove(block)
        block.ref_cnt += 1

    def free_blocks(self, block_ids):
        """Take one holder off each block, in this order; those without a holder go to the back."""
        assert 0 not in list(block_ids)
        for block in [self.blocks[i] for i in block_ids]:
            block.ref_cnt = block.ref_cnt - 1
            if not block.ref_cnt:
                self.free_queue.append(block)
