"""Hashes are written into places that were appended empty; extra keys come as a list."""

from solutions.phase4_prefix_cache import ROOT_HASH, hash_block
from solutions.phase4_prefix_cache import HashPrefixCache as Given


class HashPrefixCache(Given):
    def update_block_hashes(self, request):
        k = len(request.block_hashes)
        full, _ = divmod(len(request.all_token_ids), self.block_size)
        request.block_hashes.extend([b""] * (full - k))
        for i in range(k, full):
            tokens = tuple(request.all_token_ids[i * self.block_size : (i + 1) * self.block_size])
            parent = ROOT_HASH if i == 0 else request.block_hashes[i - 1]
            request.block_hashes[i] = hash_block(
                parent, tokens, [request.cache_salt, request.adapter_id] if not i else []
            )
