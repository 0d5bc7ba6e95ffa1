"""The free queue is a dictionary that remembers the order, without any links."""

from collections import OrderedDict
from collections.abc import Sequence

from mini_vllm.core.block import KVCacheBlock


class FreeKVCacheBlockQueue:
    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self._blocks = OrderedDict((block.block_id, block) for block in blocks)

    @property
    def num_free_blocks(self) -> int:
        return len(self._blocks)

    def append(self, block: KVCacheBlock) -> None:
        self._blocks[block.block_id] = block

    def remove(self, block: KVCacheBlock) -> None:
        if self._blocks.pop(block.block_id, None) is None:
            raise ValueError("not in the queue")

    def popleft(self) -> KVCacheBlock:
        if not self._blocks:
            raise ValueError("empty")
        return self._blocks.popitem(last=False)[1]

    def block_ids(self) -> list[int]:
        return list(self._blocks)
