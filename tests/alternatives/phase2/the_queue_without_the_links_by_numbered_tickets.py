"""The queue is a dict of numbered tickets."""

import itertools


class FreeKVCacheBlockQueue:
    def __init__(self, blocks):
        self._ticket = itertools.count()
        self._block_of = {}
        self._ticket_of = {}
        for block in blocks:
            self.append(block)

    def append(self, block):
        ticket = next(self._ticket)
        self._block_of[ticket] = block
        self._ticket_of[id(block)] = ticket

    def remove(self, block):
        try:
            ticket = self._ticket_of.pop(id(block))
        except KeyError as error:
            raise ValueError("not in the queue") from error
        del self._block_of[ticket]

    def popleft(self):
        for block in self._block_of.values():
            self.remove(block)
            return block
        raise ValueError("there is no free block")

    def block_ids(self):
        return [block.block_id for block in self._block_of.values()]

    @property
    def num_free_blocks(self):
        return len(self._block_of)
