"""Phase 2: blocks, who holds them, and who gets them next.

`KVCacheBlock` (given, `mini_vllm/core/block.py`) has an id, a reference count and two links. The prefix cache
that you are handed is phase 4's; until then it finds nothing and has nothing to forget.
"""

from collections.abc import Sequence

from mini_vllm.core.block import KVCacheBlock
from mini_vllm.core.request import Request
from mini_vllm.seams.interfaces import PrefixCache


class FreeKVCacheBlockQueue:
    """A doubly linked list of free blocks: take from the front, put at the back, remove from anywhere.

    Every operation takes the same time, however long the queue is. Two sentinels stand before the first
    and behind the last block, so that no block is a special case.
    """

    num_free_blocks: int

    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        # Two extra blocks (id -1) that stand before the first and behind the last block save you every special
        # case. Link them, then append the blocks in order.
        raise NotImplementedError("Phase 2, task 1: make the free queue")

    def append(self, block: KVCacheBlock) -> None:
        """Put a block at the back."""
        # The block comes between the last one and the end. Four links change, and the count.
        raise NotImplementedError("Phase 2, task 1: append")

    def remove(self, block: KVCacheBlock) -> None:
        """Take a block out, wherever it lies. Raises `ValueError` if it is not in the queue."""
        # Its neighbours become each other's neighbours. Clear its own links, so that a second removal is seen.
        raise NotImplementedError("Phase 2, task 1: remove")

    def popleft(self) -> KVCacheBlock:
        """Take the block at the front. Raises `ValueError` if there is none."""
        # The first block, removed.
        raise NotImplementedError("Phase 2, task 1: popleft")

    def block_ids(self) -> list[int]:
        """Return the ids of all free blocks, front first."""
        # Walk the links from the front.
        raise NotImplementedError("Phase 2, task 1: block_ids")


class BlockPool:
    """All blocks of the KV cache, their reference counts and the free queue.

    Block 0 is the null block: a valid id for padding, held by nobody and never free.
    """

    def __init__(self, num_gpu_blocks: int, prefix_cache: PrefixCache) -> None:
        # One KVCacheBlock per id from 0; all but block 0 go into the free queue, in order of id.
        raise NotImplementedError("Phase 2, task 2: make the pool")

    def get_new_blocks(self, num_blocks: int) -> list[int]:
        """Hand out the `num_blocks` blocks that have been free longest; what they held is forgotten."""
        # Take them from the front, one by one. Before a block changes hands tell `prefix_cache.evict(block_id)`.
        raise NotImplementedError("Phase 2, task 2: get_new_blocks")

    def touch(self, block_id: int) -> None:
        """Add a holder to a block; out of the free queue with it if it lay there."""
        # A block with 0 holders lies in the free queue: this is the removal from the middle.
        raise NotImplementedError("Phase 2, task 2: touch")

    def free_blocks(self, block_ids: Sequence[int]) -> None:
        """Take one holder off each block, in this order; those without a holder go to the back."""
        # Only who loses the last holder becomes free. It goes to the back, cached or not.
        raise NotImplementedError("Phase 2, task 2: free_blocks")


class PagedKVCacheManager:
    """Block tables of the requests, over one pool."""

    block_size: int
    num_usable_blocks: int

    def __init__(self, num_gpu_blocks: int, block_size: int, prefix_cache: PrefixCache) -> None:
        # A pool, the prefix cache, and one block table (list of block ids) per request that holds something.
        raise NotImplementedError("Phase 2, task 3: make the manager")

    @property
    def num_free_blocks(self) -> int:
        """Length of the free queue."""
        raise NotImplementedError("Phase 2, task 3: num_free_blocks")

    @property
    def usage(self) -> float:
        """Share of the usable blocks that somebody holds, 0 to 1."""
        raise NotImplementedError("Phase 2, task 4: usage")

    def get_computed_blocks(self, request: Request) -> list[int]:
        """Return the ids of the cached blocks that hold the request's longest known prefix. Takes nothing."""
        # One line: `prefix_cache.find_longest_cache_hit`.
        raise NotImplementedError("Phase 2, task 3: get_computed_blocks")

    def allocate_slots(
        self,
        request: Request,
        num_new_tokens: int,
        hit_blocks: Sequence[int] = (),
        num_lookahead_tokens: int = 0,
    ) -> list[int] | None:
        """Give the request blocks for `num_new_tokens` more tokens: all of them or none.

        Returns the ids of the blocks taken from the free queue, in order. An empty list is a success:
        the request's last block had room. None is a refusal, and nothing has changed.
        """
        # A request without a table is being admitted: its first blocks will be `hit_blocks`.
        # 1. Tokens after this step = computed + hit tokens + new. Blocks needed = that (plus lookahead) divided
        #    by block_size, rounded up, minus what it holds or hits. Below 0 (after a lookahead): take none.
        # 2. A hit block that is free leaves the free queue too, so it counts as needed memory. Too much: None.
        # 3. Admission: `prefix_cache.pin(request, hit_blocks, pool)` first, also without hits, so that no hit
        #    block can be handed out in 4. Its table starts with them.
        # 4. Take the new blocks, extend the table.
        # 5. Blocks that are full after this step, counting up to min(tokens after this step, num_tokens), enter
        #    the prefix cache now: `cache_full_blocks(request, table, full before, full after)`, if there are any.
        #    Full before: (computed + hit tokens) // block_size.
        raise NotImplementedError("Phase 2, task 3: allocate_slots")

    def free(self, request: Request, num_computed_tokens: int) -> None:
        """Take back all blocks, last block first; those behind `num_computed_tokens` leave the prefix cache."""
        # Forget the table (a request without one is fine). Blocks from `num_computed_tokens // block_size` on were
        # never completed: hand them to
        # `prefix_cache.drop_uncomputed`. Then free all of them, last block first.
        raise NotImplementedError("Phase 2, task 4: free")

    def block_ids(self, request_id: str) -> list[int]:
        """Return the request's block table; empty if it holds nothing."""
        raise NotImplementedError("Phase 2, task 3: block_ids")

    def free_block_ids(self) -> list[int]:
        """Return the free queue, front first. For pictures and checks, not for the hot path."""
        raise NotImplementedError("Phase 2, task 4: free_block_ids")

    def ref_counts(self) -> dict[int, int]:
        """Return block id to number of holders, for the blocks somebody holds."""
        raise NotImplementedError("Phase 2, task 4: ref_counts")
