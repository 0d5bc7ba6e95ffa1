"""More mistakes for `test_hints.py`, of phases 1 to 3: what is replaced, by what, and what the first failure says."""

PIN = "            self.prefix_cache.pin(request, hit_blocks, self.block_pool)\n"
RANK = "request.priority, request.arrival_time, request.request_id"
EVICT = "            preempt(victim, waiting, kv)\n"

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
    "a preemption counted twice": (
        3,
        ("    request.preempt()\n", "    request.preempt()\n    request.num_preemptions += 1\n"),
        "your code counts 2 preemptions for this one",
    ),
    "a victim freed with its known tokens": (
        3,
        ("kv.free(request, request.num_computed_tokens)", "kv.free(request, request.num_tokens)"),
        "7 of its 9 tokens were computed, and your code called kv.free with 9",
    ),
    "the last one leaves in the victim's place": (
        3,
        ("running.remove(victim)", "running.pop()"),
        "your code recorded B as preempted, and C left RUNNING",
    ),
    "victim and cause swapped": (
        3,
        ("Preempted(victim.request_id, request.request_id,", "Preempted(request.request_id, victim.request_id,"),
        "your code recorded A as preempted, and C left RUNNING",
    ),
    "the computed tokens returned": (
        3,
        ("num_returned = scheduler_output.num_scheduled_tokens.pop(victim.request_id, 0)", "num_returned = 8"),
        "this step had planned 0 tokens for C, and your record has 8",
    ),
    "a return before the record": (
        3,
        (EVICT, f"{EVICT}            if victim is request:\n                return False\n"),
        "C waits and make_room returned False; what differs is preempted",
    ),
}
