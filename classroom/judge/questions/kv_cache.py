"""Questions to the parts of the KV cache, one operation after the other: phases 2 and 4."""

from collections import deque
from contextlib import suppress
from random import Random
from typing import Any

from classroom.judge.question import MAX_CASES, JudgeQuestion
from classroom.judge.script import Script
from classroom.worker.doubles import CacheLog
from course.labtest.phase2.cases import random_use
from course.labtest.phase4.random_workload import RandomWorkload
from course.labtest.recorded import Answers
from mini_vllm.core.block import KVCacheBlock
from mini_vllm.core.request import Request


class ReferenceAnswers(Answers):
    """Takes every answer for the right one: what runs here is the reference itself."""

    def __init__(self) -> None:
        """Need no recorded answers."""

    def __call__(self, yours: object) -> Any:
        return yours


def free_queue_operations(rng: Random) -> JudgeQuestion:
    """Take from the front, append at the back, remove from anywhere; sometimes an illegal operation."""
    script, blocks = Script(2), [KVCacheBlock(number) for number in range(rng.randrange(3, 9))]
    queue, outside = script.functions.FreeKVCacheBlockQueue(blocks[1:]), list[KVCacheBlock]()
    for _ in range(MAX_CASES):
        with suppress(ValueError):
            match rng.choice(("popleft", "popleft", "append", "append", "remove")):
                case "popleft":
                    outside.append(queue.popleft())
                case "append" if outside:
                    queue.append(outside.pop(rng.randrange(len(outside))))
                case "remove":
                    block = rng.choice(blocks[1:])
                    queue.remove(block)
                    outside.append(block)
    return script.question()


def pool_operations(rng: Random) -> JudgeQuestion:
    """Blocks handed out, given a second holder, and freed in some order."""
    script, num_blocks = Script(2), rng.randrange(4, 12)
    pool = script.functions.BlockPool(num_blocks, CacheLog())
    for _ in range(MAX_CASES):
        held = [block.block_id for block in pool.blocks if block.ref_cnt]
        num_free = num_blocks - 1 - len(held)
        match rng.choice(("get", "touch", "free", "free")):
            case "get":
                pool.get_new_blocks(rng.randrange(0, num_free + 1))
            case "touch":
                pool.touch(rng.randrange(1, num_blocks))
            case "free" if held:
                pool.free_blocks(rng.sample(held, rng.randrange(1, len(held) + 1)))
    pool.get_new_blocks(sum(not block.ref_cnt for block in pool.blocks[1:]))
    return script.question()


def manager_operations(rng: Random) -> JudgeQuestion:
    """Requests that get memory, with hits and look-ahead, are refused, and give it back."""
    script = Script(2)
    while len(script.calls) < MAX_CASES:
        deque(random_use(script.functions, rng, with_free=True), maxlen=0)
    return script.question()


def hash_cases(rng: Random) -> JudgeQuestion:
    """Blocks that agree and blocks that nearly agree: in tokens, order, parent or extra keys."""
    one, two, three = (rng.randrange(1, 10) for _ in range(3))
    rest = [rng.randrange(300) for _ in range(rng.randrange(3))]
    base, moved = [one * 10 + two, three, *rest], [one, two * 10 + three, *rest]  # 12, 3 and 1, 23
    keys: list[tuple[str | None, ...]] = [(), ("a", None), (None, "a"), ("b", None), ("a", "b"), ("ab", None)]
    near = [[*base[:-1], base[-1] + more] for more in (1, 2**8, 2**16)]  # ids of large vocabularies
    contents, script = (base, base[::-1], moved, *near), Script(4)
    hash_block = script.functions.hash_block
    parents = [script.file.ROOT_HASH, *[hash_block(script.file.ROOT_HASH, tokens) for tokens in contents][:2]]
    for parent in parents:
        for tokens in contents:
            for key in keys:
                hash_block(parent, tokens, *([key] if key else []))
    return script.question()


def cache_operations(rng: Random) -> JudgeQuestion:
    """Requests with shared prefixes arrive, grow, commit, finish and resume; at the end a prefix has lost a block."""
    script, block_size = Script(4), rng.choice((1, 2, 3))
    cache = script.functions.HashPrefixCache(block_size)
    workload = RandomWorkload(cache, ReferenceAnswers(), block_size, rng.getrandbits(60))
    while len(script.calls) < 2 * MAX_CASES:
        workload.run(1)
    tokens, table = [rng.randrange(2, 9) for _ in range(4 * block_size)], rng.sample(range(30, 60), 4)
    first, second = Request("first", tokens), Request("second", [*tokens, 9])
    cache.update_block_hashes(first)
    cache.cache_full_blocks(first, table, 0, 4)
    cache.evict(rng.choice(table[:3]))
    cache.update_block_hashes(second)
    cache.find_longest_cache_hit(second)
    return script.question()
