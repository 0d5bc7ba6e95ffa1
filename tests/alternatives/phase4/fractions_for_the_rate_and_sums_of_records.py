"""The hit rate is a fraction over a list of all admissions."""

from fractions import Fraction

from solutions.phase4_prefix_cache import HashPrefixCache as Given


class HashPrefixCache(Given):
    def __init__(self, block_size):
        self.block_size = block_size
        self._blocks_of_hash = {}
        self._hash_of_block = {}
        self.records = []

    def pin(self, request, block_ids, pool):
        for block_id in block_ids:
            pool.touch(block_id)
        self.records.append((request.num_tokens, len(block_ids) * self.block_size))

    def hit_rate(self):
        asked = sum(a for a, _ in self.records)
        return float(Fraction(sum(h for _, h in self.records), asked)) if asked else 0.0
