"""Tables are objects of a small class; free hit blocks are found through `ref_counts`."""

from solutions.phase2_block_pool import BlockPool


class _Table:
    def __init__(self, ids):
        self.ids = list(ids)


class PagedKVCacheManager:
    def __init__(self, num_gpu_blocks, block_size, prefix_cache):
        self.block_size = block_size
        self.num_usable_blocks = num_gpu_blocks - 1
        self.pool = BlockPool(num_gpu_blocks, prefix_cache)
        self.cache = prefix_cache
        self.tables = {}

    @property
    def num_free_blocks(self):
        return self.pool.free_queue.num_free_blocks

    @property
    def usage(self):
        return len(self.ref_counts()) / self.num_usable_blocks

    def get_computed_blocks(self, request):
        return self.cache.find_longest_cache_hit(request)

    def allocate_slots(self, request, num_new_tokens, hit_blocks=(), num_lookahead_tokens=0):
        import math

        size = self.block_size
        computed = request.num_computed_tokens + len(hit_blocks) * size
        after = computed + num_new_tokens
        admitted = request.request_id in self.tables
        held = len(self.tables[request.request_id].ids) if admitted else len(hit_blocks)
        need = max(math.ceil((after + num_lookahead_tokens) / size) - held, 0)
        idle = [b for b in hit_blocks if b not in self.ref_counts()]
        if need + len(idle) > self.num_free_blocks:
            return None
        if not admitted:
            self.cache.pin(request, tuple(hit_blocks), self.pool)
            self.tables[request.request_id] = _Table(hit_blocks)
        table = self.tables[request.request_id].ids
        new: list[int] = []
        while len(new) < need:
            new.extend(self.pool.get_new_blocks(1))
        table.extend(new)
        before, full = computed // size, min(after, request.num_tokens) // size
        if before < full:
            self.cache.cache_full_blocks(request, tuple(table), before, full)
        return list(new)

    def free(self, request, num_computed_tokens):
        table = self.tables.pop(request.request_id, None)
        if table is None:
            return
        keep = num_computed_tokens // self.block_size
        self.cache.drop_uncomputed(tuple(table.ids[keep:]))
        self.pool.free_blocks(list(reversed(table.ids)))

    def block_ids(self, request_id):
        table = self.tables.get(request_id)
        return list(table.ids) if table else []

    def free_block_ids(self):
        return self.pool.free_queue.block_ids()

    def ref_counts(self):
        return {b.block_id: b.ref_cnt for b in self.pool.blocks[1:] if b.ref_cnt > 0}
