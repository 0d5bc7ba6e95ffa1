"""Copies of a block in lists instead of dictionaries; the end of the hit is found by bisection."""

from bisect import bisect
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from mini_vllm.core.interfaces import BlockPool
from mini_vllm.core.request import Request
from solutions.phase4_prefix_cache import ROOT_HASH, hash_block


class HashPrefixCache:
    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.copies: defaultdict[bytes, list[int]] = defaultdict(list)
        self.tokens = np.zeros(2, dtype=np.int64)  # supplied, asked for

    def update_block_hashes(self, request: Request) -> None:
        size, known = self.block_size, len(request.block_hashes)
        for index in range(known, request.num_tokens // size):
            block = np.array(request.all_token_ids)[index * size : index * size + size]
            if index == 0:
                request.block_hashes.append(hash_block(ROOT_HASH, block, (request.cache_salt, request.adapter_id)))
            else:
                request.block_hashes.append(hash_block(request.block_hashes[index - 1], block, (None, None)))

    def find_longest_cache_hit(self, request: Request) -> list[int]:
        self.update_block_hashes(request)
        hashes = request.block_hashes[: max(0, request.num_tokens - 1) // self.block_size]
        is_known_up_to = range(1, len(hashes) + 1)
        end = bisect(is_known_up_to, 0, key=lambda length: not all(self.copies.get(h) for h in hashes[:length]))
        return [self.copies[block_hash][0] for block_hash in hashes[:end]]

    def pin(self, request: Request, block_ids: Sequence[int], pool: BlockPool) -> None:
        self.tokens += (len(block_ids) * self.block_size, request.num_tokens)
        for block_id in block_ids:
            pool.touch(block_id)

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        self.update_block_hashes(request)
        for index in range(num_cached_blocks, num_full_blocks):
            self.copies[request.block_hashes[index]].append(block_ids[index])

    def evict(self, block_id: int) -> bool:
        for block_hash, blocks in self.copies.items():
            if block_id in blocks:
                blocks.remove(block_id)
                if not blocks:
                    del self.copies[block_hash]
                return True
        return False

    def drop_uncomputed(self, block_ids: Sequence[int]) -> None:
        for block_id in reversed(block_ids):
            self.evict(block_id)

    def cached_blocks(self) -> dict[int, bytes]:
        return {block_id: block_hash for block_hash, blocks in self.copies.items() for block_id in blocks}

    def hit_rate(self) -> float:
        supplied, asked = self.tokens.tolist()
        return Fraction(supplied, asked or 1)
