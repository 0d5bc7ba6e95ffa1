"""The free queue is a dict whose keys are the blocks."""


class FreeKVCacheBlockQueue:
    def __init__(self, blocks):
        self.members = dict.fromkeys(blocks)

    def append(self, block):
        self.members[block] = None

    def remove(self, block):
        if block not in self.members:
            raise ValueError("absent")
        del self.members[block]

    def popleft(self):
        try:
            block = next(iter(self.members))
        except StopIteration:
            raise ValueError("empty") from None
        del self.members[block]
        return block

    def block_ids(self):
        return [b.block_id for b in self.members]

    @property
    def num_free_blocks(self):
        return len(self.members)
