"""The queue without the links, by numbered tickets."""

import itertools


class FreeKVCacheBlockQueue:
    """A doubly linked list of free blocks: take from the front, put at the back, remove from anywhere.

    Every operation takes the same time, however long the queue is. Two sentinels stand before the first
    and behind the last block, so that no block is a special case.
    """

    def __init__(self, blocks):
        self._ticket = itertools.count()
        self._block_of = {}
        self._ticket_of = {}
        for block in blocks:
            self.append(block)

    def append(self, block):
        """Put a block at the back."""
        ticket = next(self._ticket)
        self._block_of[ticket] = block
        self._ticket_of[id(block)] = ticket

    def remove(self, block):
        """Take a block out, wherever it lies. Raises `ValueError` if it is not in the queue."""
        try:
            ticket = self._ticket_of.pop(id(block))
        except KeyError as error:
            raise ValueError("not in the queue") from error
        del self._block_of[ticket]

    def popleft(self):
        """Take the block at the front. Raises `ValueError` if there is none."""
        for block in self._block_of.values():
            self.remove(block)
            return block
        raise ValueError("there is no free block")

    def block_ids(self):
        """Return the ids of all free blocks, front first."""
        return [block.block_id for block in self._block_of.values()]

    @property
    def num_free_blocks(self):
        return len(self._block_of)
