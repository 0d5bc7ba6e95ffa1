"""Block hashes that depend on the images in a block: equal tokens stand for different pictures."""

from collections.abc import Sequence
from typing import Any

from mini_vllm.core.gates.admission import ExtraKeys
from mini_vllm.core.interfaces import HashBlock, PrefixCache
from mini_vllm.core.request import Request

ROOT_HASH = bytes(32)


class ImagesInHashes:
    """A `PrefixCache` around phase 4's that hashes requests with images itself, by phase 4's `hash_block`.

    `extra_keys` is phase 11's. Phase 4 finds the hashes there when it looks, and adds none.
    """

    def __init__(self, inner: PrefixCache, hash_block: HashBlock, extra_keys: ExtraKeys, block_size: int) -> None:
        self.inner = inner
        self.hash_block = hash_block
        self.extra_keys = extra_keys
        self.block_size = block_size

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def update_block_hashes(self, request: Request) -> None:
        if not request.mm_features:
            self.inner.update_block_hashes(request)
            return
        hashes, size = request.block_hashes, self.block_size
        for start in range(len(hashes) * size, request.num_tokens - size + 1, size):
            parent, token_ids = hashes[-1] if hashes else ROOT_HASH, request.all_token_ids[start : start + size]
            hashes.append(self.hash_block(parent, token_ids, self.extra_keys(request, start, start + size)))

    def find_longest_cache_hit(self, request: Request) -> list[int]:
        self.update_block_hashes(request)
        return self.inner.find_longest_cache_hit(request)

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        self.update_block_hashes(request)
        self.inner.cache_full_blocks(request, block_ids, num_cached_blocks, num_full_blocks)
