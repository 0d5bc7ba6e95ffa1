"""Phase 2: KV cache blocks, which requests hold them, and which one is handed out next.

`KVCacheBlock` (given, `mini_vllm/core/block.py`) has an id, a reference count and two links. The prefix cache that you
are given comes from phase 4; until you write that phase, it finds nothing and does nothing. `mini-vllm hint 2.1` prints
a hint, one step at a time.
"""

from collections.abc import Sequence

from mini_vllm.core.block import KVCacheBlock
from mini_vllm.core.interfaces import PrefixCache
from mini_vllm.core.request import Request


class FreeKVCacheBlockQueue:
    """A doubly linked list of free blocks. Every operation except `block_ids` takes constant time."""

    num_free_blocks: int

    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        # The queue holds the given blocks, in the given order.
        raise NotImplementedError("Phase 2, task 1: make the free queue")

    def append(self, block: KVCacheBlock) -> None:
        """Append a block at the back. The block must not already be in the queue."""
        raise NotImplementedError("Phase 2, task 1: append")

    def remove(self, block: KVCacheBlock) -> None:
        """Remove a block from any position. Raises `ValueError` if the block is not in the queue."""
        raise NotImplementedError("Phase 2, task 1: remove")

    def popleft(self) -> KVCacheBlock:
        """Remove and return the block at the front. Raises `ValueError` if the queue is empty."""
        raise NotImplementedError("Phase 2, task 1: popleft")

    def block_ids(self) -> list[int]:
        """Return the ids of all free blocks, front first, as a new list."""
        raise NotImplementedError("Phase 2, task 1: block_ids")


class BlockPool:
    """All blocks, their reference counts and the free queue. Block 0, the null block, is never held and never free."""

    def __init__(self, num_gpu_blocks: int, prefix_cache: PrefixCache) -> None:
        # `num_gpu_blocks` includes the null block. All other blocks start out free, in order of their ids.
        raise NotImplementedError("Phase 2, task 2: make the pool")

    def get_new_blocks(self, num_blocks: int) -> list[int]:
        """Take the `num_blocks` blocks that have been free longest; the prefix cache forgets their content."""
        raise NotImplementedError("Phase 2, task 2: get_new_blocks")

    def touch(self, block_id: int) -> None:
        """Add a holder to a block; a free block leaves the free queue."""
        raise NotImplementedError("Phase 2, task 2: touch")

    def free_blocks(self, block_ids: Sequence[int]) -> None:
        """Remove one holder from each block, in order; append blocks left without a holder to the free queue.

        Raises `ValueError` if a block has no holder: a block freed twice would be handed out twice.
        """
        raise NotImplementedError("Phase 2, task 2: free_blocks")


class PagedKVCacheManager:
    """Each request's block table; all tables share one pool."""

    block_size: int
    num_usable_blocks: int

    def __init__(self, num_gpu_blocks: int, block_size: int, prefix_cache: PrefixCache) -> None:
        # `num_gpu_blocks` includes the null block; `num_usable_blocks` does not.
        raise NotImplementedError("Phase 2, task 3: make the manager")

    @property
    def num_free_blocks(self) -> int:
        """The length of the free queue, available in constant time."""
        raise NotImplementedError("Phase 2, task 3: num_free_blocks")

    @property
    def usage(self) -> float:
        """The fraction of usable blocks that requests hold, from 0 to 1."""
        raise NotImplementedError("Phase 2, task 4: usage")

    def get_computed_blocks(self, request: Request) -> list[int]:
        """Return the ids of the cached blocks that hold the request's longest known prefix; take none of them."""
        raise NotImplementedError("Phase 2, task 3: get_computed_blocks")

    def allocate_slots(
        self,
        request: Request,
        num_new_tokens: int,
        hit_blocks: Sequence[int] = (),
        num_lookahead_tokens: int = 0,
    ) -> list[int] | None:
        """Allocate blocks for `num_new_tokens` more tokens: all of them or none.

        Returns the ids of the blocks taken from the free queue, in order, as a new list. An empty list is a success:
        the request's own blocks had enough room. None means that the request was refused and nothing has changed.
        """
        raise NotImplementedError("Phase 2, task 3: allocate_slots")

    def free(self, request: Request, num_computed_tokens: int) -> None:
        """Take back all of the request's blocks, last one first; blocks not filled by `num_computed_tokens` leave the
        prefix cache.

        A request without blocks is allowed. A table that `block_ids` has already returned does not change.
        """
        raise NotImplementedError("Phase 2, task 4: free")

    def block_ids(self, request_id: str) -> list[int]:
        """Return the request's block table; empty if it holds nothing. Callers only read the table."""
        raise NotImplementedError("Phase 2, task 3: block_ids")

    def free_block_ids(self) -> list[int]:
        """Return the ids in the free queue, front first, as a new list. Used for views and checks only."""
        raise NotImplementedError("Phase 2, task 4: free_block_ids")

    def ref_counts(self) -> dict[int, int]:
        """Return the number of holders of each held block, by block id, as a new dict."""
        raise NotImplementedError("Phase 2, task 4: ref_counts")
