"""Phase 2, reference: KV cache blocks, which requests hold them, and which one is handed out next.

vLLM: `v1/core/kv_cache_utils.py` (the queue), `v1/core/block_pool.py`, `v1/core/kv_cache_manager.py`.
"""

from collections.abc import Sequence

from mini_vllm.core.block import KVCacheBlock
from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.interfaces import PrefixCache
from mini_vllm.core.request import Request


class FreeKVCacheBlockQueue:
    """A doubly linked list of free blocks. Every operation except `block_ids` takes constant time."""

    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self.num_free_blocks = 0
        # Two sentinels: even the first and the last block then have two neighbours, so there are no special cases.
        self._head = KVCacheBlock(block_id=-1)
        self._tail = KVCacheBlock(block_id=-1)
        self._head.next_free_block = self._tail
        self._tail.prev_free_block = self._head
        for block in blocks:
            self.append(block)

    def append(self, block: KVCacheBlock) -> None:
        """Append a block at the back. The block must not already be in the queue."""
        last = self._tail.prev_free_block
        assert last is not None
        last.next_free_block = block
        block.prev_free_block = last
        block.next_free_block = self._tail
        self._tail.prev_free_block = block
        self.num_free_blocks += 1

    def remove(self, block: KVCacheBlock) -> None:
        """Remove a block from any position. Raises `ValueError` if the block is not in the queue."""
        before, after = block.prev_free_block, block.next_free_block
        if before is None or after is None:
            raise ValueError(f"block {block.block_id} is not in the free queue")
        before.next_free_block = after
        after.prev_free_block = before
        # A block without links is not in the queue: removing it again raises an error instead of cutting out its old
        # neighbours.
        block.prev_free_block = block.next_free_block = None
        self.num_free_blocks -= 1

    def popleft(self) -> KVCacheBlock:
        """Remove and return the block at the front. Raises `ValueError` if the queue is empty."""
        first = self._head.next_free_block
        if first is None or first is self._tail:
            raise ValueError("there are no free blocks")
        self.remove(first)
        return first

    def block_ids(self) -> list[int]:
        """Return the ids of all free blocks, front first, as a new list."""
        ids: list[int] = []
        block = self._head.next_free_block
        while block is not None and block is not self._tail:
            ids.append(block.block_id)
            block = block.next_free_block
        return ids


class BlockPool:
    """All blocks, their reference counts and the free queue. Block 0, the null block, is never held and never free."""

    def __init__(self, num_gpu_blocks: int, prefix_cache: PrefixCache) -> None:
        self.blocks = [KVCacheBlock(block_id) for block_id in range(num_gpu_blocks)]
        self.free_queue = FreeKVCacheBlockQueue(self.blocks[1:])
        self.prefix_cache = prefix_cache

    def get_new_blocks(self, num_blocks: int) -> list[int]:
        """Take the `num_blocks` blocks that have been free longest; the prefix cache forgets their content."""
        new_blocks: list[int] = []
        for _ in range(num_blocks):
            block = self.free_queue.popleft()
            # Evicted now rather than when it was freed: until now, a request with the same prefix could have hit it.
            self.prefix_cache.evict(block.block_id)
            block.ref_cnt = 1
            new_blocks.append(block.block_id)
        return new_blocks

    def touch(self, block_id: int) -> None:
        """Add a holder to a block; a free block leaves the free queue."""
        block = self.blocks[block_id]
        if block.ref_cnt == 0:
            # A hit on a free block: that block can be anywhere in the queue, which is why the queue is doubly linked.
            self.free_queue.remove(block)
        block.ref_cnt += 1

    def free_blocks(self, block_ids: Sequence[int]) -> None:
        """Remove one holder from each block, in order; append blocks left without a holder to the free queue.

        Raises `ValueError` if a block has no holder: a block freed twice would be handed out twice.
        """
        for block_id in block_ids:
            block = self.blocks[block_id]
            if block.ref_cnt > 1:
                block.ref_cnt -= 1
            elif block.ref_cnt == 1:
                block.ref_cnt = 0
                self.free_queue.append(block)
            else:
                raise ValueError(f"block {block_id} was freed, but no request holds it")


class PagedKVCacheManager:
    """Each request's block table; all tables share one pool."""

    def __init__(self, num_gpu_blocks: int, block_size: int, prefix_cache: PrefixCache) -> None:
        self.block_size = block_size
        self.num_usable_blocks = num_gpu_blocks - 1
        self.block_pool = BlockPool(num_gpu_blocks, prefix_cache)
        self.prefix_cache = prefix_cache
        self.req_to_blocks: dict[str, list[int]] = {}

    @property
    def num_free_blocks(self) -> int:
        """The length of the free queue, available in constant time."""
        return self.block_pool.free_queue.num_free_blocks

    @property
    def usage(self) -> float:
        """The fraction of usable blocks that requests hold, from 0 to 1."""
        return 1 - self.num_free_blocks / self.num_usable_blocks

    def get_computed_blocks(self, request: Request) -> list[int]:
        """Return the ids of the cached blocks that hold the request's longest known prefix; take none of them."""
        return self.prefix_cache.find_longest_cache_hit(request)

    # The tokens that a block table covers:
    #   | computed | hit | new | lookahead |
    #                    ^     ^           ^ blocks are allocated up to here, rounded up
    #                    |     `num_tokens`: blocks that are full up to here enter the prefix cache now
    #                    `num_computed_tokens`: blocks that are full up to here are already in it
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
        # In most decode steps, the token goes into a block that stays partly filled. There is nothing to take and
        # nothing to cache.
        if 0 < request.num_computed_tokens % self.block_size < self.block_size - num_new_tokens - num_lookahead_tokens:
            return []
        table = self.req_to_blocks.get(request.request_id)
        num_held = len(hit_blocks) if table is None else len(table)
        num_computed_tokens = request.num_computed_tokens + len(hit_blocks) * self.block_size
        num_tokens = num_computed_tokens + num_new_tokens
        num_needed = cdiv(num_tokens + num_lookahead_tokens, self.block_size) - num_held
        # All or nothing, checked before anything changes: a request cannot use half of its blocks, and other requests
        # would miss them. Pinning takes free hit blocks from the queue, so they count as needed.
        if num_needed + len(hit_blocks) > self.num_free_blocks:
            num_free_hits = sum(self.block_pool.blocks[block_id].ref_cnt == 0 for block_id in hit_blocks)
            if num_needed + num_free_hits > self.num_free_blocks:
                return None
        if table is None:
            # Pin before taking: otherwise, a free hit block at the front of the queue could be handed out as a new one.
            self.prefix_cache.pin(request, hit_blocks, self.block_pool)
            table = self.req_to_blocks[request.request_id] = list(hit_blocks)
        new_blocks = self.block_pool.get_new_blocks(num_needed)
        table += new_blocks
        num_cached_blocks = num_computed_tokens // self.block_size
        # At most the request's `num_tokens`: a slot whose token has not been sampled yet has nothing to hash.
        num_full_blocks = min(num_tokens, request.num_tokens) // self.block_size
        # Before the forward pass, as in vLLM: an identical prompt in the same step can then already hit these blocks.
        if num_full_blocks > num_cached_blocks:
            self.prefix_cache.cache_full_blocks(request, table, num_cached_blocks, num_full_blocks)
        return new_blocks

    def free(self, request: Request, num_computed_tokens: int) -> None:
        """Take back all of the request's blocks, last one first; blocks not filled by `num_computed_tokens` leave the
        prefix cache.

        A request without blocks is allowed. A table that `block_ids` has already returned does not change.
        """
        table = self.req_to_blocks.pop(request.request_id, [])
        # The price of caching before the forward pass: a request freed before its blocks were computed leaves garbage
        # under valid hashes. In nano-vllm, hashes are added after the forward pass.
        self.prefix_cache.drop_uncomputed(table[num_computed_tokens // self.block_size :])
        # Tail first: a prefix is worthless without its first block, so that block must be overwritten last.
        self.block_pool.free_blocks(table[::-1])

    def block_ids(self, request_id: str) -> list[int]:
        """Return the request's block table; empty if it holds nothing. Callers only read the table."""
        return self.req_to_blocks.get(request_id, [])

    def free_block_ids(self) -> list[int]:
        """Return the ids in the free queue, front first, as a new list. Used for views and checks only."""
        return self.block_pool.free_queue.block_ids()

    def ref_counts(self) -> dict[int, int]:
        """Return the number of holders of each held block, by block id, as a new dict."""
        return {block.block_id: block.ref_cnt for block in self.block_pool.blocks if block.ref_cnt}
