"""A linked list that ends in None on both sides and treats the first and the last block as special cases."""

from collections.abc import Sequence

from mini_vllm.core.block import KVCacheBlock


class FreeKVCacheBlockQueue:
    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self.first: KVCacheBlock | None = None
        self.last: KVCacheBlock | None = None
        self.members: set[int] = set()
        for block in blocks:
            self.append(block)

    @property
    def num_free_blocks(self) -> int:
        return len(self.members)

    def append(self, block: KVCacheBlock) -> None:
        block.prev_free_block, block.next_free_block = self.last, None
        if self.last is None:
            self.first = block
        else:
            self.last.next_free_block = block
        self.last = block
        self.members.add(block.block_id)

    def remove(self, block: KVCacheBlock) -> None:
        if block.block_id not in self.members:
            raise ValueError(f"{block.block_id} is not free")
        self.members.remove(block.block_id)
        if block.prev_free_block is None:
            self.first = block.next_free_block
        else:
            block.prev_free_block.next_free_block = block.next_free_block
        if block.next_free_block is None:
            self.last = block.prev_free_block
        else:
            block.next_free_block.prev_free_block = block.prev_free_block
        block.prev_free_block = block.next_free_block = None

    def popleft(self) -> KVCacheBlock:
        if self.first is None:
            raise ValueError("nothing is free")
        block = self.first
        self.remove(block)
        return block

    def block_ids(self) -> list[int]:
        ids, block = [], self.first
        while block:
            ids.append(block.block_id)
            block = block.next_free_block
        return ids
