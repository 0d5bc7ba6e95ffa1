"""Two maps by tuples and a counter as the order."""

import itertools

from mini_vllm.core.request import Request
from solutions.phase4_prefix_cache import ROOT_HASH, hash_block


class HashPrefixCache:
    """A map from block hash to the blocks that hold it. The blocks' holders are phase 2's business."""

    def __init__(self, block_size):
        self.block_size, self.order = block_size, itertools.count()
        self.by_block = {}
        self.query = self.hits = 0

    def update_block_hashes(self, request: Request) -> None:
        """Append to `request.block_hashes` the hashes of the blocks that its tokens have filled since."""
        hashes, size = request.block_hashes, self.block_size
        for start in range(len(hashes) * size, request.num_tokens - size + 1, size):
            token_ids = request.all_token_ids[start : start + size]
            if hashes:
                hashes.append(hash_block(hashes[-1], token_ids))
            else:
                hashes.append(hash_block(ROOT_HASH, token_ids, (request.cache_salt, request.adapter_id)))

    def find_longest_cache_hit(self, request):
        """Return the cached blocks of the longest known prefix, at most `num_tokens - 1` tokens."""
        self.update_block_hashes(request)
        out: list[int] = []
        for h in request.block_hashes:
            if (len(out) + 1) * self.block_size >= request.num_tokens:
                break
            twins = sorted((n, b) for b, (x, n) in self.by_block.items() if x == h)
            if not twins:
                break
            out.append(twins[0][1])
        return tuple(out)

    def pin(self, request, block_ids, pool):
        """Pin the hit blocks of a request that is being admitted, and count the hit."""
        for b in tuple(block_ids):
            pool.touch(b)
        self.query, self.hits = self.query + request.num_tokens, self.hits + len(block_ids) * self.block_size

    def cache_full_blocks(self, request, block_ids, num_cached_blocks, num_full_blocks):
        """Enter blocks `num_cached_blocks` to `num_full_blocks - 1` of the request's table in the cache."""
        self.update_block_hashes(request)
        for b, h in list(zip(block_ids, request.block_hashes, strict=False))[num_cached_blocks:num_full_blocks]:
            self.by_block[b] = (h, next(self.order))

    def evict(self, block_id):
        """Forget what a block holds, because it is being handed out. True if it was in the cache."""
        return self.by_block.pop(block_id, None) is not None

    def drop_uncomputed(self, block_ids):
        """Forget blocks that were entered in the cache but never computed."""
        for b in set(block_ids):
            self.by_block.pop(b, None)

    def cached_blocks(self):
        """Return block id to block hash for every block in the cache. For pictures and checks."""
        return {b: h for b, (h, _) in self.by_block.items()}

    def hit_rate(self):
        """Return the share of the admitted requests' tokens that the cache supplied, 0 to 1."""
        try:
            return self.hits / self.query
        except ZeroDivisionError:
            return 0.0
