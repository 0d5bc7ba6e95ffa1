"""The cache is one list of (block, hash) pairs; hits come out as tuples of numpy integers."""

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np

from mini_vllm.core.interfaces import BlockPool
from mini_vllm.core.request import Request
from solutions.phase4_prefix_cache import ROOT_HASH, hash_block


class HashPrefixCache:
    def __init__(self, block_size: int) -> None:
        self.size = block_size
        self.entries: list[tuple[int, bytes]] = []
        self.asked = self.supplied = 0

    def update_block_hashes(self, request: Request) -> None:
        while (len(request.block_hashes) + 1) * self.size <= len(request.all_token_ids):
            index = len(request.block_hashes)
            parent = request.block_hashes[-1] if index else ROOT_HASH
            keys = () if index else (request.cache_salt, request.adapter_id)
            token_ids = request.all_token_ids[index * self.size : (index + 1) * self.size]
            request.block_hashes = [*request.block_hashes, hash_block(parent, token_ids, keys)]

    def find_longest_cache_hit(self, request: Request) -> tuple[int, ...]:
        self.update_block_hashes(request)
        hits: tuple[int, ...] = ()
        for index, wanted in enumerate(request.block_hashes):
            copies = [block_id for block_id, block_hash in self.entries if block_hash == wanted]
            if (index + 1) * self.size >= request.num_tokens or not copies:
                break
            hits = (*hits, np.int64(copies[0]))
        return hits

    def pin(self, request: Request, block_ids: Sequence[int], pool: BlockPool) -> None:
        self.asked += request.num_tokens
        for block_id in reversed(block_ids):
            pool.touch(block_id)
            self.supplied += self.size

    def cache_full_blocks(
        self, request: Request, block_ids: Sequence[int], num_cached_blocks: int, num_full_blocks: int
    ) -> None:
        self.update_block_hashes(request)
        fresh = slice(num_cached_blocks, num_full_blocks)
        self.entries += zip(block_ids[fresh], request.block_hashes[fresh], strict=True)

    def evict(self, block_id: int) -> bool:
        before = len(self.entries)
        self.drop_uncomputed([block_id])
        return len(self.entries) < before

    def drop_uncomputed(self, block_ids: Sequence[int]) -> None:
        gone = set(block_ids)
        self.entries = [entry for entry in self.entries if entry[0] not in gone]

    def cached_blocks(self) -> OrderedDict[int, bytes]:
        return OrderedDict(self.entries)

    def hit_rate(self) -> float:
        return 0 if self.asked == 0 else self.supplied / self.asked
