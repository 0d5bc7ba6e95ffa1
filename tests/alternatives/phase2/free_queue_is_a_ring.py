"""One sentinel that is its own neighbor on both sides; ids come out as a tuple."""

from collections.abc import Sequence

from mini_vllm.core.block import KVCacheBlock


class FreeKVCacheBlockQueue:
    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self.num_free_blocks = 0
        self.ring = KVCacheBlock(-7)
        self.ring.prev_free_block = self.ring.next_free_block = self.ring
        for block in blocks:
            self.append(block)

    def append(self, block: KVCacheBlock) -> None:
        last = self.ring.prev_free_block
        block.prev_free_block, block.next_free_block = last, self.ring
        last.next_free_block = self.ring.prev_free_block = block
        self.num_free_blocks += 1

    def remove(self, block: KVCacheBlock) -> None:
        if block.next_free_block is None:
            raise ValueError
        block.prev_free_block.next_free_block = block.next_free_block
        block.next_free_block.prev_free_block = block.prev_free_block
        block.prev_free_block = block.next_free_block = None
        self.num_free_blocks -= 1

    def popleft(self) -> KVCacheBlock:
        first = self.ring.next_free_block
        if first is self.ring:
            raise ValueError
        self.remove(first)
        return first

    def block_ids(self) -> tuple[int, ...]:
        def walk(block: KVCacheBlock) -> tuple[int, ...]:
            return () if block is self.ring else (block.block_id, *walk(block.next_free_block))

        return walk(self.ring.next_free_block)
