"""A random workload that runs on the learner's cache."""

import random
from collections.abc import Mapping, Sequence

from course.labtest.expect import expect_equal
from course.labtest.phase4.cases import RecordingPool, commit, drop, evict, hit, pin
from course.labtest.recorded import Answers
from course.labtest.support import make_request, with_a_past
from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.interfaces import PrefixCache
from mini_vllm.core.request import Request, RequestStatus

Prefix = tuple[str | None, str | None, tuple[int, ...]]
TOUCHED = "`pool.touch` takes one block id: which ones does yours give it?"


class CachedPrefixes:
    """Keeps whole prefixes. The blocks are in the order in which they were cached."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.prefix_of_block: dict[int, Prefix] = {}

    def prefix(self, request: Request, num_blocks: int) -> Prefix:
        tokens = tuple(request.all_token_ids[: num_blocks * self.block_size])
        return request.cache_salt, request.adapter_id, tokens

    def enter(self, request: Request, table: Sequence[int], first: int, end: int) -> None:
        for index in range(first, end):
            self.prefix_of_block[table[index]] = self.prefix(request, index + 1)

    def forget(self, block_id: int) -> bool:
        return self.prefix_of_block.pop(block_id, None) is not None

    def describe(self) -> str:
        """Return the blocks with the tokens they stand for, and the salt and adapter where there are any."""
        blocks = []
        for block_id, (salt, adapter, tokens) in self.prefix_of_block.items():
            named = {"salt": salt, "adapter": adapter}
            keys = "".join(f" {name}={key!r}" for name, key in named.items() if key is not None)
            blocks.append(f"block {block_id} has {','.join(map(str, tokens))}{keys}")
        return ", ".join(blocks) or "nothing"


def classes(content_of_block: Mapping[int, object]) -> set[frozenset[int]]:
    """Return the sets of blocks that hold the same content."""
    blocks_of: dict[object, set[int]] = {}
    for block_id, content in content_of_block.items():
        blocks_of.setdefault(content, set()).add(int(block_id))
    return {frozenset(blocks) for blocks in blocks_of.values()}


class RandomWorkload:
    """Requests with shared prefixes arrive, grow and are freed; every answer is compared with the recorded one."""

    def __init__(self, cache: PrefixCache, answers: Answers, block_size: int, seed: int, many: int = 1) -> None:
        self.cache = cache
        self.answers = answers
        self.cached = CachedPrefixes(block_size)
        self.block_size = block_size
        self.seed = seed
        self.random = random.Random(seed)
        self.many = many
        self.tokens = self.random.choice(((0, 1), (1, 257), (70_000, 4464)))  # alike in one byte, and in two
        self.num_holders = dict.fromkeys(range(1, 14 * many + 1), 0)
        self.live: list[Request] = []
        self.tables: dict[str, list[int]] = {}
        self.log: list[str] = []
        self.num_requests = 0
        self.num_hits_seen = 0

    def run(self, num_events: int) -> None:
        for _ in range(num_events):
            events = [self.admit, self.grow, self.free, self.look, self.use_another_cache]
            self.random.choices(events, [10, 10, 6, 4, 1])[0]()
            self.compare_state()

    def admit(self) -> None:
        request = self.new_request()
        hit_blocks = self.compare_hit(request)
        num_hit_tokens = len(hit_blocks) * self.block_size
        num_computed = num_hit_tokens + self.random.randint(1, request.num_tokens - num_hit_tokens)
        num_new_blocks = cdiv(num_computed, self.block_size) - len(hit_blocks)
        if num_new_blocks > len(self.free_blocks(but_not=hit_blocks)):
            self.log.append(f"{request.request_id} does not fit and is not admitted")
            return
        pool = RecordingPool()
        self.log.append(f"pin({request.request_id}, {hit_blocks})")
        pin(self.cache, request, hit_blocks, pool)
        self.expect(sorted(pool.touched), sorted(hit_blocks), "pin touches each hit block once.", TOUCHED)
        for block_id in hit_blocks:
            self.num_holders[block_id] += 1
        self.live.append(request)
        self.tables[request.request_id] = list(hit_blocks)
        self.compute(request, num_hit_tokens, num_computed)

    def grow(self) -> None:
        if not self.live:
            return
        request = self.random.choice(self.live)
        if request.num_computed_tokens == request.num_tokens:
            request.all_token_ids.append(self.random.choice(self.tokens))
        num_computed = self.random.randint(request.num_computed_tokens + 1, request.num_tokens)
        num_held = len(self.tables[request.request_id])
        if cdiv(num_computed, self.block_size) - num_held <= len(self.free_blocks()):
            self.compute(request, request.num_computed_tokens, num_computed)

    def free(self) -> None:
        if not self.live:
            return
        request = self.live.pop(self.random.randrange(len(self.live)))
        table = self.tables.pop(request.request_id)
        never_computed = table[self.random.randint(0, len(table)) :] if self.random.random() < 0.3 else []
        self.log.append(f"{request.request_id} is freed: drop_uncomputed({never_computed})")
        drop(self.cache, never_computed)
        for block_id in never_computed:
            self.cached.forget(block_id)
        for block_id in table:
            self.num_holders[block_id] -= 1

    def look(self) -> None:
        self.compare_hit(self.random.choice(self.live) if self.live else self.new_request())

    def use_another_cache(self) -> None:
        self.log.append("another cache of the same class is made, and block 1 is committed and pinned there")
        another = type(self.cache)(self.block_size)  # type: ignore[call-arg]
        request = make_request(f"r{self.num_requests}", self.block_size + 1)
        another.cache_full_blocks(request, [1], 0, 1)
        another.pin(request, [1], RecordingPool())

    def new_request(self) -> Request:
        self.num_requests += 1
        tokens = self.random.choices(self.tokens, k=self.random.randint(1, 14 * self.many))
        if self.live:
            known = self.random.choice(self.live).all_token_ids
            tokens = (known[: self.random.randint(0, len(known))] + tokens)[: self.random.randint(1, 16 * self.many)]
        num_prompt = self.random.choice([len(tokens), self.random.randint(1, len(tokens))])
        request = make_request(f"r{self.num_requests}", 0, token_ids=tokens[:num_prompt])
        request.all_token_ids += tokens[num_prompt:]
        if with_a_past(self.random, request).num_preemptions or num_prompt < len(tokens):
            request.status = RequestStatus.PREEMPTED
        request.cache_salt = self.random.choice([None, None, None, "t", "", "山", "川"])
        request.adapter_id = self.random.choice([None, None, None, "t"])
        keys = f"salt={request.cache_salt!r} adapter={request.adapter_id!r}"
        generated = f"{len(tokens) - num_prompt} of them generated"
        self.log.append(f"{request.request_id} arrives with tokens {tokens}, {generated}, {keys}")
        return request

    def compute(self, request: Request, num_before: int, num_computed: int) -> None:
        """Give the request blocks up to `num_computed` tokens and enter the full ones."""
        table = self.tables[request.request_id]
        while len(table) * self.block_size < num_computed:
            block_id = self.random.choice(self.free_blocks())
            self.log.append(f"block {block_id} is handed out to {request.request_id}: evict({block_id})")
            hint = "which of the last events cached this block, or took it out?"
            rule = "evict returns whether the block was in the cache."
            self.expect(evict(self.cache, block_id), block_id in self.cached.prefix_of_block, rule, hint)
            self.cached.forget(block_id)
            self.num_holders[block_id] = 1
            table.append(block_id)
        first, end = num_before // self.block_size, num_computed // self.block_size
        request.num_computed_tokens = num_computed
        if end > first:
            self.log.append(f"cache_full_blocks({request.request_id}, {table}, {first}, {end})")
            commit(self.cache, request, self.random.choice((list, tuple))(table), first, end)
            self.cached.enter(request, table, first, end)

    def free_blocks(self, but_not: Sequence[int] = ()) -> list[int]:
        return [block_id for block_id, holders in self.num_holders.items() if not holders and block_id not in but_not]

    def compare_hit(self, request: Request) -> list[int]:
        self.log.append(f"find_longest_cache_hit({request.request_id}), whose tokens are {request.all_token_ids}")
        yours = hit(self.cache, request)
        expected: list[int] = self.answers(yours)
        rule = "A hit is the longest run of cached blocks from the first token on, of at most num_tokens - 1 tokens."
        self.expect(
            yours,
            expected,
            rule,
            "how many blocks may be hit, which of yours differs first, and which of equal ones was cached first?",
        )
        self.num_hits_seen += bool(expected)
        return expected

    def compare_state(self) -> None:
        cached = {int(block_id): content for block_id, content in self.cache.cached_blocks().items()}
        rule = "cached_blocks has exactly the blocks that were entered and not forgotten since."
        expected = sorted(self.cached.prefix_of_block)
        self.expect(sorted(cached), expected, rule, "which of the last events enters or forgets the odd block?")
        rule = "Two blocks have the same hash if and only if all tokens up to their end, salt and adapter are the same."
        same = [sorted(blocks) for blocks in classes(self.cached.prefix_of_block)]
        yours = [sorted(blocks) for blocks in classes(cached)]
        self.expect(
            sorted(yours),
            sorted(same),
            rule,
            "by the rule, which of these blocks are the same? What goes into their hashes in your code?",
        )
        rule = "hit_rate is hit tokens over tokens of all admitted requests."
        rate = round(float(self.cache.hit_rate()), 9)
        self.expect(
            rate,
            self.answers(rate),
            rule,
            "each pin counts all tokens of its request and those of its hit. Which pin does your code count otherwise?",
        )

    def expect(self, yours: object, expected: object, rule: str, hint: str) -> None:
        head = f"block_size={self.block_size}, seed={self.seed}, the last events:"
        known = f"cached, first cached first: {self.cached.describe()}"
        expect_equal(yours, expected, rule=rule, situation="\n".join([head, *self.log[-10:], known]), hint=hint)
