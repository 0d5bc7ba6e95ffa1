"""Questions to phase 2: its queue, its pool and its tables, one operation after the other."""

import importlib
from random import Random
from typing import Any

from classroom.judge.questions.trial import MAX_CASES, Trial, trial
from classroom.judge.worker import lab_folder
from classroom.worker.drivers.phase2 import CommitLog
from mini_vllm.core.request import Request


def free_queue_operations(rng: Random) -> Trial:
    """Take from the front, append at the back, remove from anywhere; sometimes an illegal operation."""
    num_blocks = rng.randrange(3, 9)
    inside, outside = list(range(1, num_blocks)), list[int]()
    operations: list[tuple[Any, ...]] = []
    for _ in range(MAX_CASES):
        name = rng.choice(("popleft", "popleft", "append", "append", "remove"))
        if name == "popleft":
            outside += inside[:1]
            del inside[:1]
            operations.append((name,))
        elif name == "append" and outside:
            block = outside.pop(rng.randrange(len(outside)))
            inside.append(block)
            operations.append((name, block))
        elif name == "remove":
            block = rng.randrange(1, num_blocks)
            if block in inside:
                inside.remove(block)
                outside.append(block)
            operations.append((name, block))
    return trial(2, "free_queue", num_blocks, operations)


def pool_operations(rng: Random) -> Trial:
    """Blocks handed out, given a second holder, and freed in some order."""
    num_blocks = rng.randrange(4, 12)
    holders = dict.fromkeys(range(1, num_blocks), 0)
    operations: list[tuple[str, Any]] = []
    free = list(holders)
    for _ in range(MAX_CASES):
        held = [block for block, count in holders.items() if count]
        name = rng.choice(("get_new_blocks", "touch", "free_blocks", "free_blocks"))
        if name == "get_new_blocks":
            count = rng.randrange(0, len(free) + 1)
            operations.append((name, count))
            for block in free[:count]:
                holders[block] = 1
            del free[:count]
        elif name == "touch":
            block = rng.randrange(1, num_blocks)
            holders[block] += 1
            if block in free:
                free.remove(block)
            operations.append((name, block))
        elif held:
            freed = rng.sample(held, rng.randrange(1, len(held) + 1))
            for block in freed:
                holders[block] -= 1
                if not holders[block]:
                    free.append(block)
            operations.append((name, freed))
    operations.append(("get_new_blocks", len(free)))
    return trial(2, "block_pool", num_blocks, operations)


def manager_operations(rng: Random) -> Trial:
    """Requests that get memory, with hits and look-ahead, are refused, and give it back."""
    num_blocks, block_size = rng.randrange(5, 12), rng.choice((1, 2, 3, 4))
    requests = [Request(f"r{number}", [number] * rng.randrange(1, 16)) for number in range(5)]
    manager = importlib.import_module(f"solutions.{lab_folder(2)}").PagedKVCacheManager(
        num_blocks, block_size, CommitLog()
    )
    computed, operations = dict.fromkeys(range(5), 0), list[tuple[Any, ...]]()
    for _ in range(MAX_CASES):
        number = rng.randrange(5)
        request, table = requests[number], manager.block_ids(f"r{number}")
        if table and rng.random() < 0.3:
            operations.append(("free", number, rng.choice((computed[number], computed[number] // 2))))
            request.num_computed_tokens, computed[number] = 0, 0
            manager.free(request, operations[-1][2])
            continue
        other = rng.choice([manager.block_ids(f"r{other}") for other in range(5)] + [manager.free_block_ids()])
        hits = other[: rng.randrange(0, 3)] if not computed[number] and len(request.all_token_ids) > block_size else []
        hits = hits[: (len(request.all_token_ids) - 1) // block_size]
        start = computed[number] + len(hits) * block_size
        count = rng.randrange(1, max(2, len(request.all_token_ids) - start + 2))
        operations.append(("allocate", number, computed[number], count, hits, rng.choice((0, 0, 0, 1, 5))))
        request.num_computed_tokens = computed[number]
        if manager.allocate_slots(request, count, hits, operations[-1][-1]) is not None:
            computed[number] = start + count
    return trial(2, "block_tables", num_blocks, block_size, [list(r.all_token_ids) for r in requests], operations)
