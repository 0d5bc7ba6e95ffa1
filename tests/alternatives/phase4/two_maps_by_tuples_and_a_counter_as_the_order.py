"""One map from block to hash and number of entry; of equal blocks the lowest number wins."""

import itertools

from solutions.phase4_prefix_cache import HashPrefixCache as Given


class HashPrefixCache(Given):
    def __init__(self, block_size):
        self.block_size, self.order = block_size, itertools.count()
        self.by_block = {}
        self.query = self.hits = 0

    def find_longest_cache_hit(self, request):
        self.update_block_hashes(request)
        out: list[int] = []
        for h in request.block_hashes:
            if (len(out) + 1) * self.block_size >= request.num_tokens:
                break
            equal = sorted((n, b) for b, (x, n) in self.by_block.items() if x == h)
            if not equal:
                break
            out.append(equal[0][1])
        return tuple(out)

    def pin(self, request, block_ids, pool):
        for b in tuple(block_ids):
            pool.touch(b)
        self.query, self.hits = self.query + request.num_tokens, self.hits + len(block_ids) * self.block_size

    def cache_full_blocks(self, request, block_ids, num_cached_blocks, num_full_blocks):
        self.update_block_hashes(request)
        for b, h in list(zip(block_ids, request.block_hashes, strict=False))[num_cached_blocks:num_full_blocks]:
            self.by_block[b] = (h, next(self.order))

    def evict(self, block_id):
        return self.by_block.pop(block_id, None) is not None

    def drop_uncomputed(self, block_ids):
        for b in set(block_ids):
            self.by_block.pop(b, None)

    def cached_blocks(self):
        return {b: h for b, (h, _) in self.by_block.items()}

    def hit_rate(self):
        try:
            return self.hits / self.query
        except ZeroDivisionError:
            return 0.0
