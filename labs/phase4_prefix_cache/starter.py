"""Phase 4: find blocks by their content.

This class is a map between hashes and blocks. Phase 2 tracks which requests hold a block and when it is free; it calls
your class at four moments (look up, pin, commit, forget). `mini-vllm hint 4.1` prints a hint, one step at a time.
"""

import hashlib
import json
from array import array
from collections.abc import Sequence

from mini_vllm.core.interfaces import BlockPool
from mini_vllm.core.request import Request

ROOT_HASH = bytes(32)


def hash_block(parent_hash: bytes, token_ids: Sequence[int], extra_keys: Sequence[str | None] = ()) -> bytes:
    """Return the SHA-256 (32 bytes) of a full block: its parent's hash, its token ids and its extra keys.

    `extra_keys` are the request's cache salt and adapter id, in this order. If all extra keys are None, they are
    ignored.
    """
    raise NotImplementedError("Phase 4, task 1: hash_block")


class HashPrefixCache:
    """A map from block hash to the blocks with that content. Phase 2 tracks which requests hold a block."""

    def __init__(self, block_size: int) -> None:
        # An empty cache for blocks of `block_size` tokens.
        raise NotImplementedError("Phase 4, task 2: make the cache")

    def update_block_hashes(self, request: Request) -> None:
        """Append to `request.block_hashes` the hashes of the blocks that became full since the last call."""
        raise NotImplementedError("Phase 4, task 2: update_block_hashes")

    def find_longest_cache_hit(self, request: Request) -> list[int]:
        """Return the cached blocks of the longest known prefix, at most `num_tokens - 1` tokens, as a new list."""
        raise NotImplementedError("Phase 4, task 4: find_longest_cache_hit")

    def pin(self, request: Request, block_ids: Sequence[int], pool: BlockPool) -> None:
        """Add a holder to each hit block of a request that is being admitted, and count the hit."""
        raise NotImplementedError("Phase 4, task 3: pin")

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        """Cache blocks `num_cached_blocks` to `num_full_blocks - 1` of the request's table, `block_ids`."""
        raise NotImplementedError("Phase 4, task 3: cache_full_blocks")

    def evict(self, block_id: int) -> bool:
        """Forget the content of a block that is being handed out. Returns whether the block was in the cache."""
        raise NotImplementedError("Phase 4, task 5: evict")

    def drop_uncomputed(self, block_ids: Sequence[int]) -> None:
        """Forget blocks that were cached when they were allocated but never fully computed."""
        raise NotImplementedError("Phase 4, task 5: drop_uncomputed")

    def cached_blocks(self) -> dict[int, bytes]:
        """Return a copy of the map from block id to block hash. Used for views and checks only."""
        raise NotImplementedError("Phase 4, task 3: cached_blocks")

    def hit_rate(self) -> float:
        """Return the fraction of the admitted requests' tokens that the cache supplied, from 0 to 1."""
        raise NotImplementedError("Phase 4, task 3: hit_rate")
