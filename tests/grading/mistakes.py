"""More mistakes for `test_hints.py`, of phases 1 to 3: what is replaced, by what, and what the first failure says."""

PIN = "            self.prefix_cache.pin(request, hit_blocks, self.block_pool)\n"
RANK = "request.priority, request.arrival_time, request.request_id"

MORE_MISTAKES: dict[str, tuple[int, tuple[str, str], str]] = {
    "an eviction of the block itself": (
        2,
        ("self.prefix_cache.evict(block.block_id)", "self.prefix_cache.evict(block)"),
        "your code calls evict with a KVCacheBlock. Which attribute of it is the id?",
    ),
    "a count that does not fall": (
        2,
        ("self.num_free_blocks -= 1", "pass"),
        "the right blocks are in the queue. Which of the calls above must change num_free_blocks",
    ),
    "hits taken off twice": (
        2,
        ("self.block_size) - num_held", "self.block_size) - num_held - len(hit_blocks)"),
        "2 hit blocks are free, and 5 blocks lie in the free queue. How many would leave it?",
    ),
    "a block more than the tokens fill": (
        2,
        ("cdiv(num_tokens + num_lookahead_tokens, self.block_size)", "(num_tokens // self.block_size + 1)"),
        "how many of them does A hold or hit before the call? Your code took 2.",
    ),
    "hit blocks with a second holder": (
        2,
        (PIN, f"            for block_id in hit_blocks:\n                self.block_pool.touch(block_id)\n{PIN}"),
        "the blocks [1] were hit, and each has one holder too many",
    ),
    "blocks without a holder listed": (
        2,
        (" if block.ref_cnt}", "}"),
        "your dict has blocks with 0 holders",
    ),
    "the request's counter in free": (
        2,
        ("num_computed_tokens // self.block_size :", "request.num_computed_tokens // self.block_size :"),
        "The argument is the number of computed tokens, the request's own counter is 0",
    ),
    "entries that compare requests": (
        3,
        (f"({RANK}, request)", "(request.priority, request.arrival_time, request)"),
        "What of a request decides between those two, and where does it stand in your entry?",
    ),
    "an entry put before the heap": (
        3,
        ("        self.add_request(request)\n", f"        self._heap.insert(0, ({RANK}, request))\n"),
        "iteration gives the right order here, and peek_request another request",
    ),
}
