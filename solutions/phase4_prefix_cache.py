"""Phase 4, reference: find blocks by their content.

vLLM: `hash_block_tokens` in `v1/core/kv_cache_utils.py`, `BlockPool.cache_full_blocks` and
`get_cached_block` in `v1/core/block_pool.py`, `find_longest_cache_hit` in
`v1/core/single_type_kv_cache_manager.py`.
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
    # The hash includes the parent's, because a token's K and V depend on every token before it: equal hashes mean equal
    # prefixes, not just equal blocks. Each token takes 8 bytes: [1, 23] and [12, 3] must not look alike.
    content = array("q", token_ids).tobytes()
    # JSON, because it quotes strings: salt "a" with adapter "bc" must not look like salt "ab" with adapter "c".
    if extra_keys and any(key is not None for key in extra_keys):
        content += json.dumps(list(extra_keys)).encode()
    # Nothing compares the tokens after a match, so hashes must not collide. Python's `hash` has 64 bits, makes
    # deliberate collisions easy, and, for text, changes from process to process.
    return hashlib.sha256(parent_hash + content).digest()


class HashPrefixCache:
    """A map from block hash to the blocks with that content. Phase 2 tracks which requests hold a block."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.num_query_tokens = 0
        self.num_hit_tokens = 0
        # Several blocks can have the same contents. Each inner dict serves as an ordered set: the block that was cached
        # first comes first.
        self._blocks_of_hash: dict[bytes, dict[int, None]] = {}
        self._hash_of_block: dict[int, bytes] = {}

    def update_block_hashes(self, request: Request) -> None:
        """Append to `request.block_hashes` the hashes of the blocks that became full since the last call."""
        hashes, size = request.block_hashes, self.block_size
        # Start at the first block without a hash: this runs in every step, over prompts of up to 100,000 tokens.
        for start in range(len(hashes) * size, request.num_tokens - size + 1, size):
            token_ids = request.all_token_ids[start : start + size]
            if hashes:
                hashes.append(hash_block(hashes[-1], token_ids))
            else:
                # Only the first block needs the salt and adapter: the chain carries them into every later hash.
                hashes.append(hash_block(ROOT_HASH, token_ids, (request.cache_salt, request.adapter_id)))

    def find_longest_cache_hit(self, request: Request) -> list[int]:
        """Return the cached blocks of the longest known prefix, at most `num_tokens - 1` tokens, as a new list."""
        self.update_block_hashes(request)
        # The last token is always computed, because the next token is sampled from its logits.
        max_num_blocks = (request.num_tokens - 1) // self.block_size
        hit_blocks: list[int] = []
        for blocks in map(self._blocks_of_hash.get, request.block_hashes[:max_num_blocks]):
            if blocks is None:
                break
            # The oldest block stays cached, as in vLLM: requests share that copy, and later copies become free.
            hit_blocks.append(next(iter(blocks)))
        return hit_blocks

    def pin(self, request: Request, block_ids: Sequence[int], pool: BlockPool) -> None:
        """Add a holder to each hit block of a request that is being admitted, and count the hit."""
        for block_id in block_ids:
            pool.touch(block_id)
        # Counted here rather than at the lookup: a waiting request is looked up in every step, but admitted only once.
        self.num_query_tokens += request.num_tokens
        self.num_hit_tokens += len(block_ids) * self.block_size

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        """Cache blocks `num_cached_blocks` to `num_full_blocks - 1` of the request's table, `block_ids`."""
        self.update_block_hashes(request)
        for index in range(num_cached_blocks, num_full_blocks):
            block_id, block_hash = block_ids[index], request.block_hashes[index]
            # Two blocks with the same contents are both kept. Merging them would change a block table that a step in
            # progress may be reading.
            self._blocks_of_hash.setdefault(block_hash, {})[block_id] = None
            self._hash_of_block[block_id] = block_hash

    def evict(self, block_id: int) -> bool:
        """Forget the content of a block that is being handed out. Returns whether the block was in the cache."""
        block_hash = self._hash_of_block.pop(block_id, None)
        if block_hash is None:
            return False
        blocks = self._blocks_of_hash[block_hash]
        del blocks[block_id]
        # Without this, a server would keep an empty entry for every block that it had ever cached.
        if not blocks:
            del self._blocks_of_hash[block_hash]
        return True

    def drop_uncomputed(self, block_ids: Sequence[int]) -> None:
        """Forget blocks that were cached when they were allocated but never fully computed."""
        for block_id in block_ids:
            self.evict(block_id)

    def cached_blocks(self) -> dict[int, bytes]:
        """Return a copy of the map from block id to block hash. Used for views and checks only."""
        return dict(self._hash_of_block)

    def hit_rate(self) -> float:
        """Return the fraction of the admitted requests' tokens that the cache supplied, from 0 to 1."""
        return self.num_hit_tokens / self.num_query_tokens if self.num_query_tokens else 0.0
