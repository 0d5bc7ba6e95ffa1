"""The queue raises a subclass of `ValueError`."""

from mini_vllm.core.block import KVCacheBlock
from solutions.phase2_block_pool import FreeKVCacheBlockQueue as Given


class NotFreeError(ValueError):
    pass


class FreeKVCacheBlockQueue(Given):
    def remove(self, block: KVCacheBlock) -> None:
        if block.prev_free_block is None:
            raise NotFreeError(block.block_id)
        block.prev_free_block.next_free_block, block.next_free_block.prev_free_block = (
            block.next_free_block,
            block.prev_free_block,
        )
        block.prev_free_block, block.next_free_block = None, None
        self.num_free_blocks = self.num_free_blocks - 1

    def popleft(self) -> KVCacheBlock:
        block = self._head.next_free_block
        if block is self._tail:
            raise NotFreeError("empty")
        self.remove(block)
        return block
