"""Fractions for the rate and sums of records."""

from collections.abc import Sequence
from fractions import Fraction

from mini_vllm.core.request import Request
from solutions.phase4_prefix_cache import ROOT_HASH, hash_block


class HashPrefixCache:
    """A map from block hash to the blocks that hold it. The blocks' holders are phase 2's business."""

    def __init__(self, block_size):
        self.block_size = block_size
        self._blocks_of_hash = {}
        self._hash_of_block = {}
        self.records = []

    def update_block_hashes(self, request: Request) -> None:
        """Append to `request.block_hashes` the hashes of the blocks that its tokens have filled since."""
        hashes, size = request.block_hashes, self.block_size
        for start in range(len(hashes) * size, request.num_tokens - size + 1, size):
            token_ids = request.all_token_ids[start : start + size]
            if hashes:
                hashes.append(hash_block(hashes[-1], token_ids))
            else:
                hashes.append(hash_block(ROOT_HASH, token_ids, (request.cache_salt, request.adapter_id)))

    def find_longest_cache_hit(self, request: Request) -> list[int]:
        """Return the cached blocks of the longest known prefix, at most `num_tokens - 1` tokens."""
        self.update_block_hashes(request)
        max_num_blocks = (request.num_tokens - 1) // self.block_size
        hit_blocks: list[int] = []
        for block_hash in request.block_hashes[:max_num_blocks]:
            blocks = self._blocks_of_hash.get(block_hash)
            if blocks is None:
                break
            hit_blocks.append(next(iter(blocks)))
        return hit_blocks

    def pin(self, request, block_ids, pool):
        """Pin the hit blocks of a request that is being admitted, and count the hit."""
        for block_id in block_ids:
            pool.touch(block_id)
        self.records.append((request.num_tokens, len(block_ids) * self.block_size))

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        """Enter blocks `num_cached_blocks` to `num_full_blocks - 1` of the request's table in the cache."""
        self.update_block_hashes(request)
        for index in range(num_cached_blocks, num_full_blocks):
            block_id, block_hash = block_ids[index], request.block_hashes[index]
            self._blocks_of_hash.setdefault(block_hash, {})[block_id] = None
            self._hash_of_block[block_id] = block_hash

    def evict(self, block_id: int) -> bool:
        """Forget what a block holds, because it is being handed out. True if it was in the cache."""
        block_hash = self._hash_of_block.pop(block_id, None)
        if block_hash is None:
            return False
        blocks = self._blocks_of_hash[block_hash]
        del blocks[block_id]
        if not blocks:
            del self._blocks_of_hash[block_hash]
        return True

    def drop_uncomputed(self, block_ids: Sequence[int]) -> None:
        """Forget blocks that were entered in the cache but never computed."""
        for block_id in block_ids:
            self.evict(block_id)

    def cached_blocks(self) -> dict[int, bytes]:
        """Return block id to block hash for every block in the cache. For pictures and checks."""
        return dict(self._hash_of_block)

    def hit_rate(self):
        """Return the share of the admitted requests' tokens that the cache supplied, 0 to 1."""
        asked = sum(a for a, _ in self.records)
        return float(Fraction(sum(h for _, h in self.records), asked)) if asked else 0.0
