"""Errors of a subclass of ValueError."""

from collections.abc import Sequence

from mini_vllm.core.block import KVCacheBlock


class NotFreeError(ValueError):
    pass


class FreeKVCacheBlockQueue:
    """A doubly linked list of free blocks: take from the front, put at the back, remove from anywhere.

    Every operation takes the same time, however long the queue is. Two sentinels stand before the first
    and behind the last block, so that no block is a special case.
    """

    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self.num_free_blocks = 0
        self._head = KVCacheBlock(block_id=-1)
        self._tail = KVCacheBlock(block_id=-1)
        self._head.next_free_block = self._tail
        self._tail.prev_free_block = self._head
        for block in blocks:
            self.append(block)

    def append(self, block: KVCacheBlock) -> None:
        """Put a block at the back."""
        last = self._tail.prev_free_block
        assert last is not None
        last.next_free_block = block
        block.prev_free_block = last
        block.next_free_block = self._tail
        self._tail.prev_free_block = block
        self.num_free_blocks += 1

    def remove(self, block: KVCacheBlock) -> None:
        """Take a block out, wherever it lies. Raises `ValueError` if it is not in the queue."""
        if block.prev_free_block is None:
            raise NotFreeError(block.block_id)
        block.prev_free_block.next_free_block, block.next_free_block.prev_free_block = (
            block.next_free_block,
            block.prev_free_block,
        )
        block.prev_free_block, block.next_free_block = None, None
        self.num_free_blocks = self.num_free_blocks - 1

    def popleft(self) -> KVCacheBlock:
        """Take the block at the front. Raises `ValueError` if there is none."""
        block = self._head.next_free_block
        if block is self._tail:
            raise NotFreeError("empty")
        self.remove(block)
        return block

    def block_ids(self) -> list[int]:
        """Return the ids of all free blocks, front first."""
        ids: list[int] = []
        block = self._head.next_free_block
        while block is not None and block is not self._tail:
            ids.append(block.block_id)
            block = block.next_free_block
        return ids
