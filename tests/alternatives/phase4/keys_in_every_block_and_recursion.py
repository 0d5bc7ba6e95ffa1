"""Every block takes the extra keys, not just the first; hashes and hits are found by recursion."""

from collections.abc import Sequence

from mini_vllm.core.request import Request
from solutions.phase4_prefix_cache import ROOT_HASH, hash_block
from solutions.phase4_prefix_cache import HashPrefixCache as Given


class HashPrefixCache(Given):
    def update_block_hashes(self, request: Request) -> None:
        index = len(request.block_hashes)
        token_ids = request.all_token_ids[index * self.block_size :][: self.block_size]
        if len(token_ids) == self.block_size:
            parent = request.block_hashes[-1] if index else ROOT_HASH
            request.block_hashes.append(hash_block(parent, token_ids, [request.cache_salt, request.adapter_id]))
            self.update_block_hashes(request)

    def find_longest_cache_hit(self, request: Request) -> list[int]:
        self.update_block_hashes(request)
        return self._walk(request.block_hashes[: (request.num_tokens - 1) // self.block_size])

    def _walk(self, hashes: Sequence[bytes]) -> list[int]:
        for block_id, block_hash in self.cached_blocks().items():
            if hashes and block_hash == hashes[0]:
                return [block_id, *self._walk(hashes[1:])]
        return []
