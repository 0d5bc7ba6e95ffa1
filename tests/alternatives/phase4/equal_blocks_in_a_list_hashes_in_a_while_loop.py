"""Equal blocks are kept in a list; hashes are made in a while loop."""

from solutions.phase4_prefix_cache import ROOT_HASH, hash_block


class HashPrefixCache:
    def __init__(self, block_size):
        from collections import defaultdict

        self.size = block_size
        self.blocks_of = defaultdict(list)
        self.content = {}
        self.asked = self.found = 0

    def update_block_hashes(self, request):
        while (len(request.block_hashes) + 1) * self.size <= len(request.all_token_ids):
            k = len(request.block_hashes)
            tokens = request.all_token_ids[k * self.size : (k + 1) * self.size]
            if k == 0:
                digest = hash_block(ROOT_HASH, tokens, [request.cache_salt, request.adapter_id])
            else:
                digest = hash_block(request.block_hashes[k - 1], tokens)
            request.block_hashes += [digest]

    def find_longest_cache_hit(self, request):
        import itertools

        self.update_block_hashes(request)
        most = (request.num_tokens - 1) // self.size
        known = itertools.takewhile(lambda h: self.blocks_of.get(h), itertools.islice(request.block_hashes, most))
        return [self.blocks_of[h][0] for h in known]

    def pin(self, request, block_ids, pool):
        self.asked += request.num_tokens
        self.found += self.size * len(block_ids)
        for block_id in reversed(list(block_ids)):
            pool.touch(block_id)

    def cache_full_blocks(self, request, block_ids, num_cached_blocks, num_full_blocks):
        self.update_block_hashes(request)
        pairs = list(zip(block_ids, request.block_hashes, strict=False))[num_cached_blocks:num_full_blocks]
        for block_id, digest in pairs:
            if block_id not in self.blocks_of[digest]:
                self.blocks_of[digest].append(block_id)
            self.content[block_id] = digest

    def evict(self, block_id):
        if block_id not in self.content:
            return False
        digest = self.content.pop(block_id)
        self.blocks_of[digest].remove(block_id)
        if not self.blocks_of[digest]:
            del self.blocks_of[digest]
        return True

    def drop_uncomputed(self, block_ids):
        for block_id in reversed(list(block_ids)):
            self.evict(block_id)

    def cached_blocks(self):
        return {**self.content}

    def hit_rate(self):
        return 0.0 if self.asked == 0 else self.found / self.asked
