"""The lookup counts tokens while it walks."""

from solutions.phase4_prefix_cache import HashPrefixCache as Given


class HashPrefixCache(Given):
    def find_longest_cache_hit(self, request):
        self.update_block_hashes(request)
        hits = []
        for index, digest in enumerate(request.block_hashes):
            if (index + 1) * self.block_size > request.num_tokens - 1:
                break
            if digest in self._blocks_of_hash:
                hits.append(next(iter(self._blocks_of_hash[digest])))
            else:
                break
        return hits
