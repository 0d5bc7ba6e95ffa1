"""A block pool with counts: which blocks are free, and how many tables hold each of the others."""

from collections.abc import Sequence

from mini_vllm.core.interfaces import WholeBlockPool


class CountedPool:
    """Phase 2's `BlockPool`, with the counts that its methods do not tell. Free block ids are in the queue's order."""

    def __init__(self, inner: WholeBlockPool, num_gpu_blocks: int) -> None:
        self.inner = inner
        self.ref_counts: dict[int, int] = {}
        self.free_ids = dict.fromkeys(range(1, num_gpu_blocks))

    @property
    def num_free_blocks(self) -> int:
        return len(self.free_ids)

    def is_free(self, block_id: int) -> bool:
        return block_id in self.free_ids

    def get_new_blocks(self, num_blocks: int) -> list[int]:
        block_ids = self.inner.get_new_blocks(num_blocks) if num_blocks > 0 else []
        for block_id in block_ids:
            del self.free_ids[block_id]
            self.ref_counts[block_id] = 1
        return block_ids

    def touch(self, block_id: int) -> None:
        self.inner.touch(block_id)
        self.free_ids.pop(block_id, None)
        self.ref_counts[block_id] = self.ref_counts.get(block_id, 0) + 1

    def free_blocks(self, block_ids: Sequence[int]) -> None:
        self.inner.free_blocks(block_ids)
        for block_id in block_ids:
            self.ref_counts[block_id] -= 1
            if not self.ref_counts[block_id]:
                del self.ref_counts[block_id]
                self.free_ids[block_id] = None
