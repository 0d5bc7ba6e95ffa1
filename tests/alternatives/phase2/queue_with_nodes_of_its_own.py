"""The queue links nodes of its own and leaves the blocks' links alone."""

from typing import Any


class _Node:
    __slots__ = ("block", "left", "right")
    block: Any
    left: Any
    right: Any


class FreeKVCacheBlockQueue:
    def __init__(self, blocks):
        self._end = _Node()
        self._end.left = self._end.right = self._end
        self._nodes = {}
        for block in blocks:
            self.append(block)

    def append(self, block):
        node = _Node()
        node.block, node.left, node.right = block, self._end.left, self._end
        self._end.left.right = node
        self._end.left = node
        self._nodes[block.block_id] = node

    def remove(self, block):
        node = self._nodes.pop(block.block_id, None)
        if node is None:
            raise ValueError(f"block {block.block_id} is not here")
        node.left.right, node.right.left = node.right, node.left

    def popleft(self):
        if self._end.right is self._end:
            raise ValueError("empty")
        block = self._end.right.block
        self.remove(block)
        return block

    def block_ids(self):
        ids, node = [], self._end.right
        while node is not self._end:
            ids.append(node.block.block_id)
            node = node.right
        return ids

    @property
    def num_free_blocks(self):
        return len(self._nodes)
