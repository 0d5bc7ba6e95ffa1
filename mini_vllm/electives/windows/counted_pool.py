"""Phase 2's block pool for several groups of layers."""

from collections.abc import Sequence

from mini_vllm.core.interfaces import WholeBlockPool


class CountedPool:
    """Phase 2's `BlockPool` with the free block ids in the order of its free queue.

    `ref_counts` holds each block's number of holders. Phase 2's pool counts all holders of a block as one.
    """

    def __init__(self, inner: WholeBlockPool, num_gpu_blocks: int) -> None:
        self.inner = inner
        self.ref_counts = [0] * num_gpu_blocks
        self.free_ids = dict.fromkeys(range(1, num_gpu_blocks))

    @property
    def num_free_blocks(self) -> int:
        return len(self.free_ids)

    def is_free(self, block_id: int) -> bool:
        return block_id in self.free_ids

    def num_free_among(self, block_ids: Sequence[int]) -> int:
        free_ids = self.free_ids
        return 0 if free_ids.keys().isdisjoint(block_ids) else sum(map(free_ids.__contains__, block_ids))

    def get_new_blocks(self, num_blocks: int) -> list[int]:
        block_ids = self.inner.get_new_blocks(num_blocks) if num_blocks > 0 else []
        for block_id in block_ids:
            del self.free_ids[block_id]
            self.ref_counts[block_id] = 1
        return block_ids

    def touch(self, block_id: int) -> None:
        num_holders = self.ref_counts[block_id]
        if not num_holders:
            self.inner.touch(block_id)
            del self.free_ids[block_id]
        self.ref_counts[block_id] = num_holders + 1

    def free_blocks(self, block_ids: Sequence[int]) -> None:
        self._to_the_back(self._without_holders(block_ids))

    def _without_holders(self, block_ids: Sequence[int]) -> list[int]:
        """Remove one holder from each block, and return the blocks that have none left."""
        counts, freed = self.ref_counts, list[int]()
        for block_id in block_ids:
            num_left = counts[block_id] = counts[block_id] - 1
            if num_left <= 0:
                freed.append(block_id)
        return freed

    def _to_the_back(self, block_ids: Sequence[int]) -> None:
        self.inner.free_blocks(block_ids)  # raises `ValueError` if a block had no holder
        self.free_ids.update(dict.fromkeys(block_ids))
