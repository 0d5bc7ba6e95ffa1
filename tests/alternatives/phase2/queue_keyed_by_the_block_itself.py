"""Queue keyed by the block itself."""


class FreeKVCacheBlockQueue:
    """A doubly linked list of free blocks: take from the front, put at the back, remove from anywhere.

    Every operation takes the same time, however long the queue is. Two sentinels stand before the first
    and behind the last block, so that no block is a special case.
    """

    def __init__(self, blocks):
        self.members = dict.fromkeys(blocks)

    def append(self, block):
        """Put a block at the back."""
        self.members[block] = None

    def remove(self, block):
        """Take a block out, wherever it lies. Raises `ValueError` if it is not in the queue."""
        if block not in self.members:
            raise ValueError("absent")
        del self.members[block]

    def popleft(self):
        """Take the block at the front. Raises `ValueError` if there is none."""
        try:
            block = next(iter(self.members))
        except StopIteration:
            raise ValueError("empty") from None
        del self.members[block]
        return block

    def block_ids(self):
        """Return the ids of all free blocks, front first."""
        return [b.block_id for b in self.members]

    @property
    def num_free_blocks(self):
        return len(self.members)
