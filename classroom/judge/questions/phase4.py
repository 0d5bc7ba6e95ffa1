"""Questions to phase 4: hashes, and a cache as phase 2 uses it."""

import importlib
from copy import deepcopy
from random import Random
from typing import Any

from classroom.judge.questions.trial import MAX_CASES, Trial, trial
from classroom.judge.worker import lab_folder
from mini_vllm.core.request import Request


def hash_cases(rng: Random) -> Trial:
    """Blocks that agree and blocks that nearly agree: in tokens, order, parent or extra keys."""
    one, two, three = (rng.randrange(1, 10) for _ in range(3))
    rest = [rng.randrange(300) for _ in range(rng.randrange(3))]
    base, moved = [one * 10 + two, three, *rest], [one, two * 10 + three, *rest]  # 12, 3 and 1, 23
    swapped = base[::-1]
    keys: list[list[str | None]] = [[], ["a", None], [None, "a"], ["b", None], ["a", "b"], ["ab", None]]
    near = [[*base[:-1], base[-1] + more] for more in (1, 2**8, 2**16)]  # ids of large vocabularies
    contents = (base, swapped, moved, *near)
    cases: list[tuple[int | None, list[int], list[str | None]]] = [(None, tokens, []) for tokens in contents]
    cases += [(parent, tokens, key) for parent in (None, 0, 1) for tokens in contents for key in keys]
    return trial(4, "hash_block", cases)


def cache_operations(rng: Random) -> Trial:
    """Requests with shared prefixes that arrive, grow, commit, finish and resume, while any free block is reused.

    Blocks are taken in no order, so that a prefix may lose a block in its middle and several may hold the same.
    """
    block_size, requests, script = rng.choice((1, 2, 3)), some_prompts(rng), CacheScript(rng)
    copies = deepcopy(requests)
    cache = importlib.import_module(f"solutions.{lab_folder(4)}").HashPrefixCache(block_size)
    for number, request in enumerate(copies):
        script.add("grow", number, [])
        cache.update_block_hashes(request)
    for _ in range(MAX_CASES):
        number = rng.randrange(len(copies))
        script.turn(number, copies[number], cache, block_size)
    return trial(4, "prefix_cache", block_size, requests, script.operations)


def some_prompts(rng: Random) -> list[Request]:
    """Requests with two beginnings and few tenants."""
    beginnings = [[rng.randrange(3) for _ in range(8)] for _ in range(2)]
    prompts = [rng.choice(beginnings)[: rng.randrange(3, 9)] + [5] * rng.randrange(3) for _ in range(6)]
    return [
        Request(
            f"r{number}", prompt, cache_salt=rng.choice((None, None, "a")), adapter_id=rng.choice((None, None, "a"))
        )
        for number, prompt in enumerate(prompts)
    ]


class CacheScript:
    """Records legal operations: a block is committed by its holder, and allocated only when it is free."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.operations: list[tuple[Any, ...]] = []
        self.free = list(range(1, 25))
        self.tables: dict[int, list[int]] = {}
        self.num_cached: dict[int, int] = {}

    def add(self, *operation: Any) -> None:
        self.operations.append(operation)

    def turn(self, number: int, request: Request, cache: Any, block_size: int) -> None:
        """Do the next operation of one request."""
        if number not in self.tables:
            self.arrive(number, request, cache)
        elif self.rng.random() < 0.3:
            self.leave(number, cache)
        elif self.rng.random() < 0.4:
            tokens = [self.rng.randrange(3) for _ in range(self.rng.randrange(1, 4))]
            self.add("grow", number, tokens)
            request.all_token_ids.extend(tokens)
            cache.update_block_hashes(request)
        else:
            self.commit(number, request, cache, request.num_tokens // block_size)

    def arrive(self, number: int, request: Request, cache: Any) -> None:
        hits = cache.find_longest_cache_hit(request)
        self.add("find", number)
        self.add("pin", number, hits)
        self.free = [block for block in self.free if block not in hits]
        self.tables[number], self.num_cached[number] = list(hits), len(hits)

    def commit(self, number: int, request: Request, cache: Any, num_full: int) -> None:
        table, done = self.tables[number], self.num_cached[number]
        num_full = self.rng.randrange(done, max(done, num_full) + 1)
        while len(table) < num_full and self.free:
            table.append(self.free.pop(self.rng.randrange(len(self.free))))
            self.add("evict", number, table[-1])
            cache.evict(table[-1])
        num_full = min(num_full, len(table))
        self.add("commit", number, list(table), done, num_full)
        cache.cache_full_blocks(request, list(table), done, num_full)
        self.num_cached[number] = num_full

    def leave(self, number: int, cache: Any) -> None:
        table, done = self.tables.pop(number), self.num_cached.pop(number)
        others = {block for other in self.tables.values() for block in other}
        lost = [block for block in table[done // 2 :] if block not in others] if self.rng.random() < 0.3 else []
        self.add("drop_uncomputed", number, lost)
        cache.drop_uncomputed(lost)
        self.free += [block for block in table if block not in others]
