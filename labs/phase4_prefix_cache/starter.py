"""Phase 4: find blocks by what they hold.

This class is a map between hashes and blocks. Who holds a block, and when it is free, is phase 2's
business: it calls you at four moments (look up, pin, commit, forget).
"""

import hashlib
import json
from array import array
from collections.abc import Sequence

from mini_vllm.core.request import Request
from mini_vllm.seams.interfaces import BlockPool

ROOT_HASH = bytes(32)


def hash_block(parent_hash: bytes, token_ids: Sequence[int], extra_keys: Sequence[str | None] = ()) -> bytes:
    """Return the SHA-256 of a full block: its parent's hash, its tokens, and what else it depends on.

    Chaining makes one hash stand for the whole prefix, so `extra_keys` (tenant salt, adapter id) are
    needed in the first block only, whose parent is `ROOT_HASH`.
    """
    # SHA-256 over parent_hash, then the tokens as bytes (`array("q", token_ids).tobytes()`), then, if any
    # extra key is not None, the extra keys as JSON. Not Python's `hash`: it changes between processes.
    raise NotImplementedError("Phase 4, task 1: hash_block")


class HashPrefixCache:
    """A map from block hash to the blocks that hold it. The blocks' holders are phase 2's business."""

    def __init__(self, block_size: int) -> None:
        # Two maps, one each way. Several blocks may hold the same content: keep them in the order they came.
        # Two counters for `hit_rate`: tokens asked for and tokens hit.
        raise NotImplementedError("Phase 4, task 2: make the cache")

    def update_block_hashes(self, request: Request) -> None:
        """Append to `request.block_hashes` the hashes of the blocks that its tokens have filled since."""
        # Only full blocks have a hash. Start behind the last hash that is there. The first block's parent is
        # ROOT_HASH, and only the first block takes the extra keys (cache_salt, adapter_id).
        raise NotImplementedError("Phase 4, task 2: update_block_hashes")

    def find_longest_cache_hit(self, request: Request) -> list[int]:
        """Return the cached blocks of the longest known prefix, at most `num_tokens - 1` tokens."""
        # Bring the hashes up to date. Walk them from the first until one is unknown. At most num_tokens - 1
        # tokens, in whole blocks: at least one token must be computed, or there are no logits. Of several blocks
        # with the same content take the one that was cached first. Take and count nothing here.
        raise NotImplementedError("Phase 4, task 4: find_longest_cache_hit")

    def pin(self, request: Request, block_ids: Sequence[int], pool: BlockPool) -> None:
        """Pin the hit blocks of a request that is being admitted, and count the hit."""
        # `pool.touch` each block. Count the request's tokens as asked for, and the hit blocks' tokens as hit.
        raise NotImplementedError("Phase 4, task 3: pin")

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        """Enter blocks `num_cached_blocks` to `num_full_blocks - 1` of the request's table in the cache."""
        # Bring the hashes up to date, then enter blocks `num_cached_blocks` up to `num_full_blocks` in both maps.
        raise NotImplementedError("Phase 4, task 3: cache_full_blocks")

    def evict(self, block_id: int) -> bool:
        """Forget what a block holds, because it is being handed out. True if it was in the cache."""
        # Out of both maps, if it is there. Other blocks with the same content stay.
        raise NotImplementedError("Phase 4, task 5: evict")

    def drop_uncomputed(self, block_ids: Sequence[int]) -> None:
        """Forget blocks that were entered in the cache but never computed."""
        # Each of them as in `evict`. Some were never entered: go on with the next.
        raise NotImplementedError("Phase 4, task 5: drop_uncomputed")

    def cached_blocks(self) -> dict[int, bytes]:
        """Return block id to block hash for every block in the cache. For pictures and checks."""
        # A copy of the map from block to hash: whoever changes it must not change the cache.
        raise NotImplementedError("Phase 4, task 3: cached_blocks")

    def hit_rate(self) -> float:
        """Return the share of the admitted requests' tokens that the cache supplied, 0 to 1."""
        # The two counters of `pin`. Before the first admission: 0.0.
        raise NotImplementedError("Phase 4, task 3: hit_rate")
