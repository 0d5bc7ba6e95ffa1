"""Questions to phase 4: hashes, and a cache as phase 2 uses it."""

from random import Random

from classroom.judge.question import MAX_CASES, JudgeQuestion
from classroom.judge.script import RecordedObject, Script
from classroom.worker.doubles import TouchLog
from mini_vllm.core.request import Request


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
    """Requests with shared prefixes that arrive, grow, commit, finish and resume, while any free block is reused.

    Blocks are taken in no order, so that a prefix may lose a block in its middle and several may hold the same.
    """
    block_size, requests, script = rng.choice((1, 2, 3)), some_prompts(rng), Script(4)
    use = CacheUse(rng, script.new("HashPrefixCache", block_size), block_size)
    for request in requests:
        use.cache.update_block_hashes(request)
    for _ in range(MAX_CASES):
        use.turn(rng.choice(requests))
    return script.question()


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


class CacheUse:
    """Legal operations on a cache: a block is committed by its holder, and allocated only when it is free."""

    def __init__(self, rng: Random, cache: RecordedObject, block_size: int) -> None:
        self.rng = rng
        self.cache = cache
        self.block_size = block_size
        self.free = list(range(1, 25))
        self.tables: dict[Request, list[int]] = {}
        self.num_cached: dict[Request, int] = {}

    def turn(self, request: Request) -> None:
        """Do the next operation of one request."""
        if request not in self.tables:
            self.arrive(request)
        elif self.rng.random() < 0.3:
            self.leave(request)
        elif self.rng.random() < 0.4:
            request.all_token_ids.extend(self.rng.randrange(3) for _ in range(self.rng.randrange(1, 4)))
            self.cache.update_block_hashes(request)
        else:
            self.commit(request)

    def arrive(self, request: Request) -> None:
        hits = self.cache.find_longest_cache_hit(request)
        self.cache.pin(request, list(hits), TouchLog())
        self.free = [block for block in self.free if block not in hits]
        self.tables[request], self.num_cached[request] = list(hits), len(hits)

    def commit(self, request: Request) -> None:
        table, done = self.tables[request], self.num_cached[request]
        num_full = self.rng.randrange(done, max(done, request.num_tokens // self.block_size) + 1)
        while len(table) < num_full and self.free:
            table.append(self.free.pop(self.rng.randrange(len(self.free))))
            self.cache.evict(table[-1])
        num_full = min(num_full, len(table))
        self.cache.cache_full_blocks(request, list(table), done, num_full)
        self.num_cached[request] = num_full

    def leave(self, request: Request) -> None:
        table, done = self.tables.pop(request), self.num_cached.pop(request)
        others = {block for other in self.tables.values() for block in other}
        lost = [block for block in table[done // 2 :] if block not in others] if self.rng.random() < 0.3 else []
        self.cache.drop_uncomputed(lost)
        self.free += [block for block in table if block not in others]
