"""Phase 2's block pool for several groups of layers."""

from collections.abc import Sequence

from mini_vllm.core.interfaces import WholeBlockPool


class CountedPool:
    """Phase 2's `BlockPool` with reference counts, and with the free block ids in the order of the free queue."""

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
        self.inner.touch(block_id)
        self.touched([block_id])

    def touched(self, block_ids: Sequence[int]) -> None:
        """Add a holder to each block's count; phase 2's pool has already been updated."""
        counts = self.ref_counts
        for block_id in block_ids:
            counts[block_id] += 1
        if not self.free_ids.keys().isdisjoint(block_ids):
            for block_id in block_ids:
                self.free_ids.pop(block_id, None)

    def free_blocks(self, block_ids: Sequence[int]) -> None:
        self.inner.free_blocks(block_ids)
        counts = self.ref_counts
        for block_id in block_ids:
            counts[block_id] -= 1
            if not counts[block_id]:
                self.free_ids[block_id] = None
