"""A block pool that first reuses freed blocks without cached content. (vLLM since 0.23: `BlockPool.free_blocks`.)"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from mini_vllm.core.interfaces import WholeBlockPool
from mini_vllm.electives.releases.release_functions import ReleaseFunctions
from mini_vllm.electives.windows.counted_pool import CountedPool


class FreedFirstPool(CountedPool):
    """Phase 2's pool with a stack of freed blocks without content, which are allocated before those in its free queue.

    Phase 2 treats the blocks on the stack as allocated. `content` holds the ids of the cached blocks, and phase 14's
    `order_freed` decides which freed blocks go onto the stack.
    """

    def __init__(
        self, inner: WholeBlockPool, num_gpu_blocks: int, content: Collection[int], functions: ReleaseFunctions
    ) -> None:
        super().__init__(inner, num_gpu_blocks)
        self.content = content
        self.order_freed = functions.order_freed
        self.stack: list[int] = []  # the last entry is the front of the free queue
        self._freed_together: list[int] | None = None

    @property
    def num_free_blocks(self) -> int:
        return len(self.free_ids) + len(self.stack)

    def block_ids(self) -> list[int]:
        return [*reversed(self.stack), *self.free_ids]

    def get_new_blocks(self, num_blocks: int) -> list[int]:
        if not self.stack:
            return super().get_new_blocks(num_blocks)
        taken = [self.stack.pop() for _ in range(min(num_blocks, len(self.stack)))]
        for block_id in taken:
            self.ref_counts[block_id] = 1
        return taken + super().get_new_blocks(num_blocks - len(taken))

    def free_blocks(self, block_ids: Sequence[int]) -> None:
        front, back = self.order_freed(self._without_holders(block_ids), self.content)
        if self._freed_together is None:
            self.stack += reversed(front)
        else:
            self._freed_together += front
        if back:
            self._to_the_back(back)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Treat all calls to `free_blocks` in this context as one: the first block freed is then allocated first."""
        self._freed_together = []
        try:
            yield
        finally:
            self.stack += reversed(self._freed_together)
            self._freed_together = None
