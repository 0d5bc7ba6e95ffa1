"""Salt and adapter are hashed into the parent of the first block."""

import hashlib
import json

from solutions.phase4_prefix_cache import ROOT_HASH, hash_block
from solutions.phase4_prefix_cache import HashPrefixCache as Given


class HashPrefixCache(Given):
    def update_block_hashes(self, request):
        root = hashlib.sha256(ROOT_HASH + json.dumps([request.cache_salt, request.adapter_id]).encode()).digest()
        for start in range(len(request.block_hashes) * self.block_size, request.num_tokens, self.block_size):
            tokens = request.all_token_ids[start : start + self.block_size]
            if len(tokens) == self.block_size:
                request.block_hashes.append(hash_block(request.block_hashes[-1] if start else root, tokens))
