"""Runs phase 4's cases for the graded tests and the judge, call by call, one function per kind of case."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from random import Random
from types import ModuleType
from typing import Any

from mini_vllm.core.request import Request
from mini_vllm_labs.grading.plays.other_process import after_a_restart, answers_elsewhere, from_another_process
from mini_vllm_labs.grading.plays.stand_ins import MANY, RecordingPool, listed
from mini_vllm_labs.grading.plays.support import changed, fields_of, ids, make_request, numbers, some_ids, with_a_past
from mini_vllm_labs.grading.plays.work import LONG, ROOM, SHORT, left_behind, work_of

Seen = dict[str, object]  # plain JSON
Steps = Iterator[str | Seen]  # a call, followed by observations
Keys = tuple[str | None, ...]
Block = tuple[bytes, Sequence[int], Keys]
Text = str | int | Mapping[str, Any]
VOCABULARIES: tuple[int, ...] = (31, 33, 37, 131, 256, 257, 1000, 1024, 4096, 10_000, 32_000, 32_768, 50_257, 65_536)
VOCABULARIES += (65_537, 99_991, 100_000, 100_003, 128_000, 128_256, 131_072, 151_936, 2**20, 1_000_003, 2**30)
VOCABULARIES += (2**31 - 1,)
MARKS = (*" ,|:;/-_.=+()[]", "\n", "\t", "\0", "\1", "\2", "\x1f", '"', "'")
SEPARATORS = ("', '", '", "', "','", '","', "None", " | ", " - ", "|||", "###", "::=")
PAIRS_OF_MARKS = [one + other for one, other in product(MARKS, repeat=2)]
# Texts that an encoding, normalisation or truncation would make equal. The lower 16 bits of U+1F600 are U+F600.
WORDS: tuple[str, ...] = ("", "a", "b", "ab", "A", "a ", "None", "null", "0", "7", "07", "\u0667", "-", " ", "[]")
WORDS += ("\0", "a,", ",a", '"', "'", "山", "川", "é", "e\u0301", "ﬁ", "fi", "ß", "ss", "\u0161", "\uf600")
WORDS += ("\U00010061",)
WORDS += ("\U0001f600", "\U0001f601", "x" * 64 + "1", "x" * 64 + "2", "x" * 300 + "1", "x" * 300 + "2")
HALVES = ("?", "\ufffd", "\ud800", "\ud801")  # the last two are invalid Unicode and may be rejected
BINARY = [list(tokens) for tokens in product(range(2), repeat=6)]


def digest_of(phase4: ModuleType, block: Block) -> bytes:
    """Return a block's hash. Code may reject invalid Unicode; in that case, the block itself stands for its hash."""
    try:
        found: bytes = phase4.hash_block(*block)
    except UnicodeEncodeError:
        if not {*block[2]} & {*HALVES[2:]}:
            raise
        return repr(block).encode()
    return found


def told(block: Block, root: bytes) -> str:
    parent, token_ids, keys = block
    return f"hash_block({'ROOT_HASH' if parent == root else parent.hex()}, {token_ids}, {keys})"


def hashes(phase4: ModuleType, calls: Sequence[Mapping[str, Any]]) -> Steps:
    """Hash blocks; number the hashes so that equal ones can be recognised.

    A call has `tokens`, and optionally `salt`, `adapter`, and the number of the call that returned the `parent`.
    Further options: `keys` (how many of `salt` and `adapter` are passed), `tuples` (instead of lists), and `apart`
    (equal numbers and strings are different objects).
    """
    digests, seen = [phase4.ROOT_HASH], list[object]()
    for call in calls:
        kind = tuple if call.get("tuples") else list
        keys = [call.get("salt"), call.get("adapter")][: call.get("keys", 2)]
        if call.get("apart"):
            keys = [key and "".join([*key]) for key in keys]
        elif keys[1:] == keys[:1]:
            keys = keys[:1] * 2
        token_ids, parent = kind([int(str(one)) for one in call["tokens"]]), call.get("parent", 0)
        given, before = kind(keys), (f"{token_ids}", f"{kind(keys)}")
        yield f"hash_block({f'hash {parent}' if parent else 'ROOT_HASH'}, {token_ids}, {given})"
        digest = phase4.hash_block(digests[parent], token_ids, given)
        is_hash = isinstance(digest, bytes) and len(digest) == 32
        seen += [digest] * (digest not in seen)
        answer = f"hash {seen.index(digest) + 1}"
        if not is_hash:
            answer = f"{len(digest)} bytes" if isinstance(digest, bytes) else f"a {type(digest).__name__}, not bytes"
        digests.append(digest)
        now = f"{token_ids}", f"{given}"
        yield {"hash_block": answer, "arguments": "as before" if now == before else f"changed to {now}"}


def sets(phase4: ModuleType, what: str) -> Steps:
    """Hash blocks that differ in one aspect; report the first two with the same hash."""
    blocks = SETS[what](phase4.ROOT_HASH)
    yield f"hash_block, for {len(blocks)} blocks that differ in {what}"
    first, equal = dict[bytes, Block](), list[str]()
    for block in blocks:
        other = first.setdefault(digest_of(phase4, block), block)
        equal += [] if other is block else [f"{told(other, phase4.ROOT_HASH)} and {told(block, phase4.ROOT_HASH)}"]
    yield {"two with one hash": equal[0] if equal else "none"}


def of_tokens(root: bytes) -> list[Block]:
    few = (0, 1, 2, 10, 255, 256, 257, 65_535, 65_536, 2**31)
    blocks = [block for length in (1, 2, 3) for block in product(few, repeat=length)]
    for size in VOCABULARIES:  # equal if the tokens are read as digits in this base
        blocks += [(size, 0), (0, size), (size, 1), (1, size)]
    return [(root, [*tokens], ()) for tokens in dict.fromkeys(blocks)]


def of_16_tokens(root: bytes) -> list[Block]:
    plain = range(500, 516)
    blocks = [[*plain]] + [[*plain[:place], 9, *plain[place + 1 :]] for place in range(16)]
    return [(root, tokens, ()) for tokens in blocks]


def of_parents(root: bytes) -> list[Block]:
    parents = [bytes(range(32)), *(bytes([*range(place), 99, *range(place + 1, 32)]) for place in range(32))]
    parents += [bytes(place) + b"\1" + bytes(31 - place) for place in (0, 1, 30, 31)]
    return [(parent, [5, 6], keys) for keys in ((), ("a", None)) for parent in parents]


def of_keys(root: bytes) -> list[Block]:
    words = (None, *WORDS)
    pairs: list[Keys] = [*product(words, words), *((half, None) for half in HALVES)]
    for mark in ("", *SEPARATORS, *PAIRS_OF_MARKS, *MARKS):
        pairs += [(f"a{mark}b", "c"), ("a", f"b{mark}c"), (f"a{mark}", None), (None, f"{mark}a")]
    end = "e" * 20
    for tag in ("", "x", "s"):  # equal if each key is prefixed with its length modulo 256, with or without a tag
        for length in dict.fromkeys((chr(len(end)), chr(len(tag + end)))):
            begin = "b" * (256 - len(length + tag))
            pairs += [("", begin + length + tag + end), (length + tag + begin, end)]
    return [(root, [1, 2], pair) for pair in dict.fromkeys(pairs)]


SETS: dict[str, Callable[[bytes], list[Block]]] = {
    "their tokens": of_tokens,
    "one token of 16": of_16_tokens,
    "one byte of the parent's hash": of_parents,
    "their salts and adapters": of_keys,
}


def strength(phase4: ModuleType) -> Steps:
    """Hash blocks with six bits of content; report whether every part of the 32-byte hashes varies."""
    yield "hash_block, for 64 blocks of 6 tokens, each 0 or 1"
    digests = [digest_of(phase4, (phase4.ROOT_HASH, tokens, ())) for tokens in BINARY]
    parts = [{digest[at : at + 4] for at in range(0, 32, 4)} for digest in digests]
    as_numbers = [int.from_bytes(digest, "big") for digest in digests]
    # a checksum would be 0, because the tokens cancel each other out
    sums = as_numbers[0] ^ as_numbers[1] ^ as_numbers[2] ^ as_numbers[3]
    yield {
        "different hashes": len({*digests}),
        "hashes with equal parts of 4 bytes": sum(len(part) < 8 for part in parts),
        "hashes with a part of zeros": sum(bytes(4) in part for part in parts),
        "bits that never change": sum(len({number >> bit & 1 for number in as_numbers}) == 1 for bit in range(256)),
        "four hashes cancel out": 0 in [sums >> 32 * at & 2**32 - 1 for at in range(8)],
    }


def restarts(phase4: ModuleType) -> Steps:
    """Hash blocks here and as a different process would; report how many hashes match."""
    keys: list[Keys] = [("salt", None), (None, "adapter"), *((f"salt {n}", f"adapter {n}") for n in range(9))]
    blocks: list[Block] = [(bytes(32), [1, 2, 3], ()), *((bytes(range(32)), [70_000, 2], pair) for pair in keys)]
    yield f"hash_block, for {len(blocks)} blocks, here and in another process"
    here = [digest_of(phase4, block) for block in blocks]
    with after_a_restart(phase4):
        found = [
            digest_of(
                phase4, (from_another_process(parent), tokens, tuple(k and from_another_process(k) for k in pair))
            )
            for parent, tokens, pair in blocks
        ]
    elsewhere = answers_elsewhere(phase4, "hash_block", blocks) or found
    same = elsewhere if isinstance(elsewhere, str) else min(shared(here, one) for one in (found, elsewhere))
    yield {"hashes that are the same": same, "hashes": len(blocks)}


def shared(here: Sequence[bytes], there: Sequence[bytes]) -> int:
    return sum(one == other for one, other in zip(here, there, strict=True))


def request_of(name: str, given: Text, rng: Random | None = None) -> Request:
    """Make a request whose tokens are the characters of a text, or a given number of tokens.

    A mapping has `text`, and optionally `generated` (number of tokens), `computed`, `salt`, `adapter`, `id`.
    """
    told: Mapping[str, Any] = given if isinstance(given, Mapping) else {"text": given}
    text = told["text"]
    token_ids = [number * 7 % 900 for number in range(text)] if isinstance(text, int) else list(map(ord, text))
    num_prompt = len(token_ids) - told.get("generated", 0)
    request = make_request(told.get("id", name), 0, token_ids=token_ids[:num_prompt])
    request.all_token_ids += token_ids[num_prompt:]
    if rng:
        with_a_past(rng, request)
    request.num_computed_tokens = told.get("computed", 0)
    request.cache_salt, request.adapter_id = told.get("salt"), told.get("adapter")
    return request


def updates(
    phase4: ModuleType, block_size: int, texts: Mapping[str, Text], calls: Sequence[str], past: int = 0
) -> Steps:
    """Make task 4.2's calls as in `caching`; report the request's hashes.

    "mark A x" gives A a hash that belongs to no block.
    """
    yield from Caching(phase4, block_size, texts, past, with_state=False).play(calls)


def caching(
    phase4: ModuleType, block_size: int, texts: Mapping[str, Text], calls: Sequence[str], past: int = 0
) -> Steps:
    """Make calls to a prefix cache; report the answer, the cached blocks with their hashes, and the hit rate.

    "commit A 0 2 in 7 5" caches blocks 0 and 1 of the table 7, 5. Further calls: "look A", "pin A 7 5 x99", "evict 7",
    "drop 7 5", "grow A xyz". "spoil" empties the lists and dicts that the caller received. `past` seeds the fields that
    requests carry over from earlier steps.
    """
    yield from Caching(phase4, block_size, texts, past, with_state=True).play(calls)


def with_given_hashes(phase4: ModuleType, block_size: int) -> Any:
    """Return the cache class with numbers instead of hashes, so that a mistake in task 4.2 only affects task 4.2."""
    known = dict[object, int]()

    def update_block_hashes(cache: object, request: Request) -> None:
        before: object = (request.cache_salt, request.adapter_id)
        request.block_hashes.clear()
        for tokens in zip(*[iter(request.all_token_ids)] * block_size, strict=False):
            before = known.setdefault((before, tokens), len(known) + 1)
            request.block_hashes.append(before.to_bytes(32))

    return type("HashPrefixCache", (phase4.HashPrefixCache,), {"update_block_hashes": update_block_hashes})


class Caching:
    """A prefix cache, created at the start of the case, and the requests that it serves."""

    cache: Any

    def __init__(
        self, phase4: ModuleType, block_size: int, texts: Mapping[str, Text], past: int, *, with_state: bool
    ) -> None:
        self.phase4, self.block_size, self.texts, self.with_state = phase4, block_size, texts, with_state
        rng = Random(past) if past else None
        self.requests = {name: request_of(name, text, rng) for name, text in texts.items()}
        self.names: dict[bytes, tuple[str, int]] = {}  # names each hash after the first block that has it
        self.taken = set[tuple[str, int]]()
        self.named: dict[str, list[bytes]] = {}  # each request's hashes, if all of them have names
        self.given: list[Any] = []

    def play(self, calls: Sequence[str]) -> Steps:
        yield f"HashPrefixCache({self.block_size})   " + ", ".join(f"{name}: {one}" for name, one in self.texts.items())
        as_given = with_given_hashes(self.phase4, self.block_size)
        self.cache = (as_given if self.with_state else self.phase4.HashPrefixCache)(self.block_size)
        yield self.state()
        for call in calls:
            what, _, given = call.partition(" ")
            if what in ("another", "spoil", "evict", "drop"):
                yield from getattr(self, what)(*numbers(given))
                continue
            name, _, given = given.partition(" ")
            request = self.requests[name]
            if what in ("grow", "mark"):
                yield f"{name} gets the tokens {given}" if what == "grow" else f"{name}.block_hashes = [{given}]"
                request.all_token_ids += map(ord, given) if what == "grow" else ()
                request.block_hashes[:] = [given.encode() * 32] if what == "mark" else request.block_hashes
                yield self.state(name)
            else:
                yield from getattr(self, what)(name, request, given)

    def state(self, name: str = "") -> Seen:
        """Return the cached blocks with the names of their hashes, or a request's hashes."""
        for one, request in self.requests.items():
            if request.block_hashes == self.named.get(one):
                continue
            self.named[one] = [*request.block_hashes]
            for index, block_hash in enumerate(request.block_hashes):
                if block_hash not in self.names:
                    self.names[block_hash] = one + "'" * ((one, index) in self.taken), index
                    self.taken.add(self.names[block_hash])
        if not self.with_state:
            hashes = self.requests[name].block_hashes if name else []
            return {"block_hashes": ["{}{}".format(*self.names[one]) for one in hashes]}
        cached = self.cache.cached_blocks()
        self.given = [*self.given[-1:], cached]
        unknown = ("no request's hash ", 0)
        in_order = sorted((int(block), *self.names.get(one, unknown)) for block, one in cached.items())
        rate = round(float(self.cache.hit_rate()), 6)
        return {"cached_blocks": in_runs(in_order), "hit_rate": rate}

    def update(self, name: str, request: Request, given: str) -> Steps:
        yield f"update_block_hashes({name})   {told_of(request)}"
        before = fields_of(request)
        self.cache.update_block_hashes(request)
        yield {"arguments": unless_hashes(request, before)} | self.state(name)

    def look(self, name: str, request: Request, given: str) -> Steps:
        yield f"find_longest_cache_hit({name})   {told_of(request)}"
        before = fields_of(request)
        hit = self.cache.find_longest_cache_hit(request)
        found = ids(hit)
        found = listed(found) if isinstance(found, list) and len(found) > MANY else found
        seen: Seen = {"find_longest_cache_hit": found, "arguments": unless_hashes(request, before)}
        self.given = [hit]
        yield seen | self.state()

    def pin(self, name: str, request: Request, given: str) -> Steps:
        told, _, times = given.partition("x")
        blocks, pool = numbers(told), RecordingPool()
        yield f"pin({name}, {told or []}, pool)   {told_of(request)}" + f", {times} times" * bool(times)
        for _ in range(int(times or 1)):
            pool.touched.clear()
            block_ids = (list if len(blocks) % 2 else tuple)(blocks)
            before = fields_of(request)
            self.cache.pin(request, block_ids, pool)
            arguments = unless_hashes(request, before) if [*block_ids] == blocks else f"block_ids is now {block_ids}"
        are_ids = all(hasattr(block, "__index__") for block in pool.touched)
        touched = listed(sorted(map(int, pool.touched))) if are_ids else str(pool.touched)
        yield {"touched": touched, "arguments": arguments} | self.state()

    def commit(self, name: str, request: Request, given: str) -> Steps:
        ends, _, table = given.partition(" in ")
        first, end = map(int, ends.split())
        blocks = numbers(table)
        block_ids = (list if len(blocks) % 2 else tuple)(blocks)
        yield f"cache_full_blocks({name}, [{table.replace(' ', ', ')}], {first}, {end})   {told_of(request)}"
        before = fields_of(request)
        self.cache.cache_full_blocks(request, block_ids, first, end)
        arguments = unless_hashes(request, before) if [*block_ids] == blocks else f"block_ids is now {block_ids}"
        yield {"arguments": arguments} | self.state()

    def evict(self, block: int) -> Steps:
        yield f"evict({block})"
        answer = self.cache.evict(block)
        yield {"evict": answer if answer is None else bool(answer)} | self.state()

    def drop(self, *blocks: int) -> Steps:
        block_ids = (list if len(blocks) % 2 else tuple)(blocks)
        yield f"drop_uncomputed({block_ids})"
        self.cache.drop_uncomputed(block_ids)
        arguments = "as before" if [*block_ids] == [*blocks] else f"block_ids is now {block_ids}"
        yield {"arguments": arguments} | self.state()

    def spoil(self) -> Steps:
        yield "what the cache has returned is emptied by its callers"
        for answer in self.given:
            if isinstance(answer, list | dict):
                answer.clear()
        yield self.state()

    def another(self) -> Steps:
        """Make a second cache and use the methods of task 4.3, to reveal state kept on the class."""
        yield "another cache is made: a block is cached and pinned there"
        another, request = type(self.cache)(self.block_size), make_request("A", self.block_size + 1)
        another.cache_full_blocks(request, [1], 0, 1)
        another.pin(request, [1], RecordingPool())
        yield self.state()


def in_runs(cached: Sequence[tuple[int, str, int]]) -> list[str]:
    """Return blocks with their hashes, as in "7: A0"; if there are many blocks, shorten runs to "7-9: A0-2"."""
    runs = list[list[tuple[int, str, int]]]()
    for block, name, index in cached:
        if len(cached) > MANY and runs and runs[-1][-1] == (block - 1, name, index - 1):
            runs[-1].append((block, name, index))
        else:
            runs.append([(block, name, index)])
    return [
        f"{block}: {name}{index}" if len(run) == 1 else f"{block}-{run[-1][0]}: {name}{index}-{run[-1][2]}"
        for run in runs
        for block, name, index in run[:1]
    ]


def told_of(request: Request) -> str:
    text = f"{request.request_id} has {request.num_tokens} tokens"
    return text + f", {request.num_output_tokens} of them generated" * bool(request.num_output_tokens)


def unless_hashes(request: Request, before: Mapping[str, object]) -> str:
    """Describe which fields other than `block_hashes` a call has changed."""
    return changed(request, {name: value for name, value in before.items() if name != "block_hashes"})


def work(phase4: ModuleType, call: str) -> Steps:
    """Make a call with few and then many blocks; report whether more blocks mean more lines run and more copies.

    The better result of two large sizes is used, because a growing dict or list may occasionally copy itself.
    """
    few, *many = (_work_among(phase4, call, number) for number in (SHORT, LONG, LONG + 150))
    yield f"{call} with {SHORT} and with {LONG} blocks: lines run and lists copied: {few} and {min(many)}"
    yield {"does more with many blocks": min(many) > 2 * few + ROOM}


def _work_among(phase4: ModuleType, call: str, num_blocks: int) -> int:
    is_update = call.startswith("update")
    cache = (phase4.HashPrefixCache if is_update else with_given_hashes(phase4, 4))(4)
    known = request_of("A", 4 * num_blocks + 1)
    new, short, pool = request_of("new", 4 * num_blocks + 1), request_of("B", "b" * 9), RecordingPool()
    if is_update:
        cache.update_block_hashes(known)
    else:
        cache.cache_full_blocks(known, list(range(num_blocks)), 0, num_blocks)
    known.all_token_ids += range(4)
    cache.update_block_hashes(known)  # the growing list may be copied once when it grows; after that, it has room
    known.all_token_ids += range(4)
    acts: dict[str, Callable[[], object]] = {
        "update_block_hashes, per block": lambda: cache.update_block_hashes(new),
        "update_block_hashes with one new block": lambda: cache.update_block_hashes(known),
        "find_longest_cache_hit, per block": lambda: cache.find_longest_cache_hit(new),
        "find_longest_cache_hit without a hit": lambda: cache.find_longest_cache_hit(short),
        "cache_full_blocks with one new block": lambda: cache.cache_full_blocks(short, [num_blocks], 0, 1),
        "pin without a hit": lambda: cache.pin(new, [], pool),
        "hit_rate": lambda: cache.hit_rate(),
        "evict": lambda: cache.evict(num_blocks // 2),
    }
    found = work_of(acts[call], str(phase4.__file__))
    return found // num_blocks if call.endswith("per block") else found


def leaves(phase4: ModuleType, num_requests: int, way_out: str) -> Seen:
    """Start and end requests; cache two blocks of each, then evict them. Report what the requests leave behind."""
    cache = phase4.HashPrefixCache(4)

    def use(name: str) -> Request:
        request = request_of(name, {"text": name[-4:].rjust(4) * 4, "salt": name})
        cache.find_longest_cache_hit(request_of("waits", {"text": name * 4, "salt": f"{name} is aborted"}))
        cache.find_longest_cache_hit(request)
        cache.pin(request, [], RecordingPool())
        for block in (8, 7):  # a request's blocks stay cached until the next request arrives
            cache.evict(block) if way_out == "evict" else cache.drop_uncomputed([block])
        cache.cache_full_blocks(request, [7], 0, 1)
        cache.cache_full_blocks(request, [8], 0, 1)
        return request

    return left_behind(phase4, use, cache, num_requests=num_requests)


def random_case(rng: Random, task: int) -> tuple[Any, ...]:
    """Draw the arguments of a random case for a task, sometimes with many blocks."""
    if task == 1:
        return ([_random_block(rng, number) for number in range(rng.randint(3, 12))],)
    block_size, many = rng.choice((1, 2, 3, 4)), 8 if rng.random() < 0.05 else 1
    names = some_ids(rng, 8 if many > 1 else 4)
    letters = rng.choice(("ab", "a\u0161", "a\U00010061"))  # equal in their lowest byte or in their lowest two
    stem, texts = "".join(rng.choices(letters, k=16 * many)), dict[str, Text]()
    for name in names:
        own = "".join(rng.choices(letters, k=rng.randint(1, 8 * many)))
        text = (stem[: rng.randint(0, len(stem))] + own)[: rng.randint(1, 16 * many)]
        texts[name] = {
            "text": text,
            "generated": rng.choice((0, rng.randrange(len(text)))),
            "computed": rng.choice((0, rng.randrange(len(text)))),
            "salt": rng.choice((None, None, None, "t", "", "山", "川")),
            "adapter": rng.choice((None, None, None, "t")),
        }
    lengths = {name: len(text["text"]) for name, text in texts.items() if isinstance(text, Mapping)}
    calls, cached = list[str](), list[int]()
    for _ in range(rng.randint(6, 14) * (2 if many > 1 else 1)):
        name = rng.choice(names)
        if rng.random() < 0.15:
            calls.append(f"grow {name} {rng.choice(letters)}")
            lengths[name] += 1
        elif task == 2:
            calls.append(f"update {name}")
        else:
            calls += _random_use(rng, name, lengths[name] // block_size, cached, task)
    calls += ["another"] * (task > 2 and rng.random() < 0.1) + ["spoil"] * (task > 2)
    return block_size, texts, [*calls, *(f"look {name}" for name in names if task > 3)], rng.randrange(1, 10**6)


def _random_block(rng: Random, number: int) -> dict[str, Any]:
    size, mark = rng.choice(VOCABULARIES), rng.choice((*MARKS, *PAIRS_OF_MARKS))
    salts = (None, f"a{mark}b", "a", rng.choice(WORDS))
    block = {"tokens": rng.choice(([size, 0], [0, size], [1, size], [1, 2], [1, 2, 0], [12])), "tuples": number % 2 > 0}
    if rng.random() < 0.7:
        block |= {"salt": rng.choice(salts), "adapter": rng.choice((None, "c", f"b{mark}c", rng.choice(WORDS)))}
    return block | {"parent": rng.randrange(number + 1), "apart": rng.random() < 0.3}


def _random_use(rng: Random, name: str, num_full: int, cached: list[int], task: int) -> list[str]:
    """Draw calls about a request; `cached` lists the blocks cached so far."""
    what = rng.choice(("commit", "commit", "pin", *["look"] * (task > 3), *["forget"] * (task > 4)))
    if what == "look":
        return [f"look {name}"]
    if what == "pin":
        return [f"pin {name} {' '.join(map(str, rng.sample(range(1, 15), min(num_full, rng.randrange(4)))))}"]
    if what == "forget":
        gone = rng.sample(range(1, 15), rng.randint(1, 3))
        calls = [f"evict {gone[0]}"] if rng.random() < 0.5 else [f"drop {' '.join(map(str, gone))}"]
        forgotten = gone[:1] if calls[0].startswith("evict") else gone
        cached[:] = [block for block in cached if block not in forgotten]
        return calls
    first = rng.randrange(num_full + 1)
    free = range(1, 20) if task > 4 else [*{*range(1, 3000)} - {*cached}]
    fresh = rng.sample(free, min(num_full - first, 19))
    handed_out = [f"evict {block}" for block in fresh if block in cached or (task > 4 and rng.random() < 0.5)]
    cached[:] = {*cached, *fresh}
    table = [*range(9000, 9000 + first), *fresh, 9999]
    return [*handed_out, f"commit {name} {first} {first + len(fresh)} in {' '.join(map(str, table))}"]
