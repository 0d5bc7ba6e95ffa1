"""The lookup is recursive."""

from solutions.phase4_prefix_cache import HashPrefixCache as Given


class HashPrefixCache(Given):
    def find_longest_cache_hit(self, request):
        self.update_block_hashes(request)
        return self._walk(request.block_hashes, 0, (request.num_tokens - 1) // self.block_size)

    def _walk(self, hashes, index, end):
        if index == end or hashes[index] not in self._blocks_of_hash:
            return []
        first, *_ = self._blocks_of_hash[hashes[index]]
        return [first, *self._walk(hashes, index + 1, end)]
