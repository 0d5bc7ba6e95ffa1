"""Phase 2, reference: blocks, who holds them, and who gets them next.

vLLM: `FreeKVCacheBlockQueue` in `v1/core/kv_cache_utils.py`, `BlockPool` in `v1/core/block_pool.py`,
`KVCacheManager` in `v1/core/kv_cache_manager.py`.
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

    def __init__(self, blocks: Sequence[KVCacheBlock]) -> None:
        self.num_free_blocks = 0
        self._head = KVCacheBlock(block_id=-1)
        self._tail = KVCacheBlock(block_id=-1)
        self._head.next_free_block = self._tail
        self._tail.prev_free_block = self._head
        for block in blocks:
            self.append(block)

    def append(self, block: KVCacheBlock) -> None:
        """Put a block at the back."""
        last = self._tail.prev_free_block
        assert last is not None
        last.next_free_block = block
        block.prev_free_block = last
        block.next_free_block = self._tail
        self._tail.prev_free_block = block
        self.num_free_blocks += 1

    def remove(self, block: KVCacheBlock) -> None:
        """Take a block out, wherever it lies. Raises `ValueError` if it is not in the queue."""
        before, after = block.prev_free_block, block.next_free_block
        if before is None or after is None:
            raise ValueError(f"block {block.block_id} is not in the free queue")
        before.next_free_block = after
        after.prev_free_block = before
        block.prev_free_block = block.next_free_block = None
        self.num_free_blocks -= 1

    def popleft(self) -> KVCacheBlock:
        """Take the block at the front. Raises `ValueError` if there is none."""
        first = self._head.next_free_block
        if first is None or first is self._tail:
            raise ValueError("there is no free block")
        self.remove(first)
        return first

    def block_ids(self) -> list[int]:
        """Return the ids of all free blocks, front first."""
        ids: list[int] = []
        block = self._head.next_free_block
        while block is not None and block is not self._tail:
            ids.append(block.block_id)
            block = block.next_free_block
        return ids


class BlockPool:
    """All blocks of the KV cache, their reference counts and the free queue.

    Block 0 is the null block: a valid id for padding, held by nobody and never free.
    """

    def __init__(self, num_gpu_blocks: int, prefix_cache: PrefixCache) -> None:
        self.blocks = [KVCacheBlock(block_id) for block_id in range(num_gpu_blocks)]
        self.free_queue = FreeKVCacheBlockQueue(self.blocks[1:])
        self.prefix_cache = prefix_cache

    def get_new_blocks(self, num_blocks: int) -> list[int]:
        """Hand out the `num_blocks` blocks that have been free longest; what they held is forgotten."""
        new_blocks: list[int] = []
        for _ in range(num_blocks):
            block = self.free_queue.popleft()
            self.prefix_cache.evict(block.block_id)
            block.ref_cnt = 1
            new_blocks.append(block.block_id)
        return new_blocks

    def touch(self, block_id: int) -> None:
        """Add a holder to a block; out of the free queue with it if it lay there."""
        block = self.blocks[block_id]
        if block.ref_cnt == 0:
            self.free_queue.remove(block)
        block.ref_cnt += 1

    def free_blocks(self, block_ids: Sequence[int]) -> None:
        """Take one holder off each block, in this order; those without a holder go to the back."""
        for block_id in block_ids:
            block = self.blocks[block_id]
            block.ref_cnt -= 1
            if block.ref_cnt == 0:
                self.free_queue.append(block)


class PagedKVCacheManager:
    """Block tables of the requests, over one pool."""

    def __init__(self, num_gpu_blocks: int, block_size: int, prefix_cache: PrefixCache) -> None:
        self.block_size = block_size
        self.num_usable_blocks = num_gpu_blocks - 1
        self.block_pool = BlockPool(num_gpu_blocks, prefix_cache)
        self.prefix_cache = prefix_cache
        self.req_to_blocks: dict[str, list[int]] = {}

    @property
    def num_free_blocks(self) -> int:
        """Length of the free queue."""
        return self.block_pool.free_queue.num_free_blocks

    @property
    def usage(self) -> float:
        """Share of the usable blocks that somebody holds, 0 to 1."""
        return 1 - self.num_free_blocks / self.num_usable_blocks

    def get_computed_blocks(self, request: Request) -> list[int]:
        """Return the ids of the cached blocks that hold the request's longest known prefix. Takes nothing."""
        return self.prefix_cache.find_longest_cache_hit(request)

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
        table = self.req_to_blocks.get(request.request_id)
        num_held = len(hit_blocks) if table is None else len(table)
        num_computed_tokens = request.num_computed_tokens + len(hit_blocks) * self.block_size
        num_tokens = num_computed_tokens + num_new_tokens
        num_needed = -(-(num_tokens + num_lookahead_tokens) // self.block_size) - num_held
        if num_needed > 0 or hit_blocks:
            num_free_hits = sum(self.block_pool.blocks[block_id].ref_cnt == 0 for block_id in hit_blocks)
            if num_needed + num_free_hits > self.num_free_blocks:
                return None
        if table is None:
            self.prefix_cache.pin(request, hit_blocks, self.block_pool)
            table = self.req_to_blocks[request.request_id] = list(hit_blocks)
        new_blocks = self.block_pool.get_new_blocks(num_needed)
        table += new_blocks
        num_cached_blocks = num_computed_tokens // self.block_size
        num_full_blocks = min(num_tokens, request.num_tokens) // self.block_size
        if num_full_blocks > num_cached_blocks:
            self.prefix_cache.cache_full_blocks(request, table, num_cached_blocks, num_full_blocks)
        return new_blocks

    def free(self, request: Request, num_computed_tokens: int) -> None:
        """Take back all blocks, last block first; those behind `num_computed_tokens` leave the prefix cache."""
        table = self.req_to_blocks.pop(request.request_id, [])
        self.prefix_cache.drop_uncomputed(table[num_computed_tokens // self.block_size :])
        self.block_pool.free_blocks(table[::-1])

    def block_ids(self, request_id: str) -> list[int]:
        """Return the request's block table; empty if it holds nothing."""
        return self.req_to_blocks.get(request_id, [])

    def free_block_ids(self) -> list[int]:
        """Return the free queue, front first. For pictures and checks, not for the hot path."""
        return self.block_pool.free_queue.block_ids()

    def ref_counts(self) -> dict[int, int]:
        """Return block id to number of holders, for the blocks somebody holds."""
        return {block.block_id: block.ref_cnt for block in self.block_pool.blocks if block.ref_cnt}
