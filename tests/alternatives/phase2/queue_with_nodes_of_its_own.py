"""Queue with nodes of its own."""

from typing import Any


class _Node:
    __slots__ = ("block", "left", "right")
    block: Any
    left: Any
    right: Any


class FreeKVCacheBlockQueue:
    """A doubly linked list of free blocks: take from the front, put at the back, remove from anywhere.

    Every operation takes the same time, however long the queue is. Two sentinels stand before the first
    and behind the last block, so that no block is a special case.
    """

    def __init__(self, blocks):
        self._end = _Node()
        self._end.left = self._end.right = self._end
        self._nodes = {}
        for block in blocks:
            self.append(block)

    def append(self, block):
        """Put a block at the back."""
        node = _Node()
        node.block, node.left, node.right = block, self._end.left, self._end
        self._end.left.right = node
        self._end.left = node
        self._nodes[block.block_id] = node

    def remove(self, block):
        """Take a block out, wherever it lies. Raises `ValueError` if it is not in the queue."""
        node = self._nodes.pop(block.block_id, None)
        if node is None:
            raise ValueError(f"block {block.block_id} is not here")
        node.left.right, node.right.left = node.right, node.left

    def popleft(self):
        """Take the block at the front. Raises `ValueError` if there is none."""
        if self._end.right is self._end:
            raise ValueError("empty")
        block = self._end.right.block
        self.remove(block)
        return block

    def block_ids(self):
        """Return the ids of all free blocks, front first."""
        ids, node = [], self._end.right
        while node is not self._end:
            ids.append(node.block.block_id)
            node = node.right
        return ids

    @property
    def num_free_blocks(self):
        return len(self._nodes)
