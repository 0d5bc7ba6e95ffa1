"""More mistakes for `test_hints.py`, of phases 4 to 6: what is replaced, by what, and what the first failure says."""

FROM_THE_STEP = (
    "first, last = scheduled.num_computed_tokens, scheduled.num_computed_tokens + scheduled.num_scheduled_tokens"
)
TOUCH = "        for block_id in block_ids:\n            pool.touch(block_id)\n"
WRITE = "    key_cache.flatten(0, 1).index_copy_(0, slot_mapping, key)\n"

LATE_MISTAKES: dict[str, tuple[int, tuple[str, str], str]] = {
    "token ids as single bytes": (
        4,
        ('array("q", token_ids).tobytes()', "bytes(token_ids)"),
        "a token id may be far over 255 and over 65535: how many bytes does yours have for each?",
    ),
    "a table that begins at the first new block": (
        4,
        ("block_ids[index], request", "block_ids[index - num_cached_blocks], request"),
        "which hash of the request belongs to which place of the table?",
    ),
    "a touch of the whole hit": (
        4,
        (TOUCH, "        pool.touch(block_ids)\n"),
        "`pool.touch` takes one block id: what did yours give it?",
    ),
    "a hit rate of two digits": (
        4,
        ("self.num_hit_tokens / self.num_query_tokens if", "round(self.num_hit_tokens / self.num_query_tokens, 2) if"),
        "your rates are nearly the expected ones: where does your code round",
    ),
    "an eviction without an answer": (
        4,
        ("            return False\n", "            return\n"),
        "does every path through evict return True or False?",
    ),
    "positions from the request's own counter": (
        6,
        (FROM_THE_STEP, FROM_THE_STEP.replace("scheduled.num_computed", "scheduled.request.num_computed")),
        "or the request's own, which advanced when the step was planned?",
    ),
    "a slot taken for a block": (
        6,
        (WRITE, "    key_cache[slot_mapping] = key[:, None]\n"),
        "a slot counts the places of all blocks: which block is it in",
    ),
    "the likeliest token of all rows": (
        6,
        ("logits.argmax(dim=-1).tolist()", "[int(logits.argmax())] * len(logits)"),
        "along which of the two dimensions does each of your operations go?",
    ),
    "sums that are compared in float32": (
        6,
        ("int((reached <= number).sum())", "min(int((reached.float() <= number).sum()), num_kept - 1)"),
        "in which dtype do you take the softmax and the sums",
    ),
}
