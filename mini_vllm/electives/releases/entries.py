"""Prefix caches that decide when a block enters the cache, and which later tokens its hash covers."""

from collections.abc import Sequence

from mini_vllm.core.interfaces import BlockPool, HashBlock, PrefixCache
from mini_vllm.core.request import Request
from mini_vllm.electives.prefix_caches import ROOT_HASH
from mini_vllm.electives.wrappers import WrappedPrefixCache


class CountedEntries(WrappedPrefixCache):
    """A `PrefixCache` that enters each block of a request into the cache once, as soon as its hash is known.

    `num_entered` counts each request's entered blocks, so that a later call can enter blocks whose hashes were not
    known before. (vLLM: `num_cached_block`.)
    """

    def __init__(self, inner: PrefixCache) -> None:
        super().__init__(inner)
        self.num_entered: dict[str, int] = {}

    def pin(self, request: Request, block_ids: Sequence[int], pool: BlockPool) -> None:
        self.inner.pin(request, block_ids, pool)
        self.num_entered[request.request_id] = len(block_ids)

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        if len(request.block_hashes) < num_full_blocks:
            self.update_block_hashes(request)
        first = self.num_entered.get(request.request_id, num_cached_blocks)
        end = min(num_full_blocks, len(request.block_hashes))
        if end > first:
            self.inner.cache_full_blocks(request, block_ids, first, end)
            self.num_entered[request.request_id] = end

    def forget(self, request_id: str) -> None:
        """Drop the count of a request that has lost its blocks."""
        self.num_entered.pop(request_id, None)


class LookaheadHashes(WrappedPrefixCache):
    """Wraps phase 4's `PrefixCache` so that a block's hash also covers the next `num_tokens` tokens.

    A block has a hash only once these tokens are known. A drafter reads these tokens, so every hit then contains
    correct K and V for the drafter. (vLLM since 0.33: `num_hash_lookahead_tokens`.)
    """

    def __init__(self, inner: PrefixCache, hash_block: HashBlock, block_size: int, num_tokens: int) -> None:
        super().__init__(inner)
        self.hash_block = hash_block
        self.block_size = block_size
        self.num_tokens = num_tokens

    def update_block_hashes(self, request: Request) -> None:
        hashes, size, token_ids = request.block_hashes, self.block_size, request.all_token_ids
        for start in range(len(hashes) * size, len(token_ids) - size - self.num_tokens + 1, size):
            end = start + size
            owner = (None, None) if hashes else (request.cache_salt, request.adapter_id)
            keys = (*owner, *map(str, token_ids[end : end + self.num_tokens]))
            hashes.append(self.hash_block(hashes[-1] if hashes else ROOT_HASH, token_ids[start:end], keys))

    def find_longest_cache_hit(self, request: Request) -> list[int]:
        self.update_block_hashes(request)
        num_known = len(request.block_hashes)
        hit_blocks = self.inner.find_longest_cache_hit(request)
        del request.block_hashes[num_known:]  # phase 4 hashes a full block and ignores the tokens after it
        return hit_blocks

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        num_known = len(request.block_hashes)
        self.inner.cache_full_blocks(request, block_ids, num_cached_blocks, num_full_blocks)
        del request.block_hashes[num_known:]
