"""A list of twins, a while loop for hashes."""

from solutions.phase4_prefix_cache import ROOT_HASH, hash_block


class HashPrefixCache:
    """A map from block hash to the blocks that hold it. The blocks' holders are phase 2's business."""

    def __init__(self, block_size):
        from collections import defaultdict

        self.size = block_size
        self.twins = defaultdict(list)
        self.content = {}
        self.asked = self.found = 0

    def update_block_hashes(self, request):
        """Append to `request.block_hashes` the hashes of the blocks that its tokens have filled since."""
        while (len(request.block_hashes) + 1) * self.size <= len(request.all_token_ids):
            k = len(request.block_hashes)
            tokens = request.all_token_ids[k * self.size : (k + 1) * self.size]
            if k == 0:
                digest = hash_block(ROOT_HASH, tokens, [request.cache_salt, request.adapter_id])
            else:
                digest = hash_block(request.block_hashes[k - 1], tokens)
            request.block_hashes += [digest]

    def find_longest_cache_hit(self, request):
        """Return the cached blocks of the longest known prefix, at most `num_tokens - 1` tokens."""
        import itertools

        self.update_block_hashes(request)
        most = (request.num_tokens - 1) // self.size
        known = itertools.takewhile(lambda h: self.twins.get(h), itertools.islice(request.block_hashes, most))
        return [self.twins[h][0] for h in known]

    def pin(self, request, block_ids, pool):
        """Pin the hit blocks of a request that is being admitted, and count the hit."""
        self.asked += request.num_tokens
        self.found += self.size * len(block_ids)
        for block_id in reversed(list(block_ids)):
            pool.touch(block_id)

    def cache_full_blocks(self, request, block_ids, num_cached_blocks, num_full_blocks):
        """Enter blocks `num_cached_blocks` to `num_full_blocks - 1` of the request's table in the cache."""
        self.update_block_hashes(request)
        pairs = list(zip(block_ids, request.block_hashes, strict=False))[num_cached_blocks:num_full_blocks]
        for block_id, digest in pairs:
            if block_id not in self.twins[digest]:
                self.twins[digest].append(block_id)
            self.content[block_id] = digest

    def evict(self, block_id):
        """Forget what a block holds, because it is being handed out. True if it was in the cache."""
        if block_id not in self.content:
            return False
        self.twins[self.content.pop(block_id)].remove(block_id)
        return True

    def drop_uncomputed(self, block_ids):
        """Forget blocks that were entered in the cache but never computed."""
        for block_id in reversed(list(block_ids)):
            self.evict(block_id)

    def cached_blocks(self):
        """Return block id to block hash for every block in the cache. For pictures and checks."""
        return {**self.content}

    def hit_rate(self):
        """Return the share of the admitted requests' tokens that the cache supplied, 0 to 1."""
        return 0.0 if self.asked == 0 else self.found / self.asked
