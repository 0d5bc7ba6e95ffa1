"""Questions to phase 2: its queue, its pool and its tables, one operation after the other."""

from contextlib import suppress
from random import Random

from classroom.judge.question import MAX_CASES, JudgeQuestion
from classroom.judge.script import Script
from classroom.worker.doubles import CacheLog
from mini_vllm.core.block import KVCacheBlock
from mini_vllm.core.request import Request


def free_queue_operations(rng: Random) -> JudgeQuestion:
    """Take from the front, append at the back, remove from anywhere; sometimes an illegal operation."""
    script, blocks = Script(2), [KVCacheBlock(number) for number in range(rng.randrange(3, 9))]
    queue, outside = script.new("FreeKVCacheBlockQueue", blocks[1:]), list[KVCacheBlock]()
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
    pool = script.new("BlockPool", num_blocks, CacheLog())
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
    script, num_blocks, size = Script(2), rng.randrange(5, 12), rng.choice((1, 2, 3, 4))
    requests = [Request(f"r{number}", [number] * rng.randrange(1, 16)) for number in range(5)]
    manager = script.new("PagedKVCacheManager", num_blocks, size, CacheLog())
    computed = dict.fromkeys(range(5), 0)
    for _ in range(MAX_CASES):
        number = rng.randrange(5)
        request = requests[number]
        if manager.block_ids(request.request_id) and rng.random() < 0.3:
            request.num_computed_tokens = 0
            manager.free(request, rng.choice((computed[number], computed[number] // 2)))
            computed[number] = 0
            continue
        other = rng.choice([manager.block_ids(other.request_id) for other in requests] + [manager.free_block_ids()])
        hits = other[: rng.randrange(0, 3)] if not computed[number] and request.num_tokens > size else []
        hits = hits[: (request.num_tokens - 1) // size]
        start = computed[number] + len(hits) * size
        count = rng.randrange(1, max(2, request.num_tokens - start + 2))
        request.num_computed_tokens = computed[number]
        if manager.allocate_slots(request, count, hits, rng.choice((0, 0, 0, 1, 5))) is not None:
            computed[number] = start + count
    return script.question()
