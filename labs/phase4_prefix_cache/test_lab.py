"""Graded tests of phase 4."""

import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from types import ModuleType

import pytest

from course.labtest.phase4.reference_cache import RandomWorkload, RecordingPool
from course.labtest.support import as_ints, expect_equal, expect_rows, make_request
from mini_vllm.core.request import Request
from mini_vllm.seams.interfaces import PrefixCache

ABC = [11, 12, 13, 14, 21, 22, 23, 24, 31, 32, 33, 34]  # three full blocks of four: A, B and C


def request_of(
    name: str, token_ids: Sequence[int], *, salt: str | None = None, adapter: str | None = None, num_outputs: int = 0
) -> Request:
    """Return a request; its last `num_outputs` tokens are generated ones."""
    num_prompt_tokens = len(token_ids) - num_outputs
    request = make_request(name, 0, token_ids=token_ids[:num_prompt_tokens])
    request.all_token_ids += token_ids[num_prompt_tokens:]
    request.cache_salt, request.adapter_id = salt, adapter
    return request


def hashes(cache: PrefixCache, request: Request) -> list[bytes]:
    cache.update_block_hashes(request)
    return list(request.block_hashes)


def hit(cache: PrefixCache, request: Request) -> list[int]:
    return as_ints(cache.find_longest_cache_hit(request), "find_longest_cache_hit")


def cached_ids(cache: PrefixCache) -> list[int]:
    return sorted(int(block_id) for block_id in cache.cached_blocks())


def cache_with_abc(phase4: ModuleType, table: Sequence[int] = (7, 5, 9)) -> PrefixCache:
    """Return a cache of block size 4 in which blocks A, B and C of request `first` are in `table`."""
    cache: PrefixCache = phase4.HashPrefixCache(4)
    cache.cache_full_blocks(request_of("first", ABC), table, 0, 3)
    return cache


# Task 4.1: hash_block


@pytest.mark.task4_1
def test_hash_is_bytes_and_repeats(phase4: ModuleType) -> None:
    digest = phase4.hash_block(phase4.ROOT_HASH, [1, 2, 3, 4], ("salt", None))
    expect_equal(
        f"{len(digest)} {type(digest).__name__}" if isinstance(digest, bytes) else f"a {type(digest).__name__}",
        "32 bytes",
        rule="hash_block returns the 32 bytes of a SHA-256: the next block takes them as its parent_hash.",
        situation="hash_block(ROOT_HASH, [1, 2, 3, 4], ('salt', None))",
        hint="which method of a hashlib object gives the hash as bytes, and not as text?",
    )
    expect_equal(
        phase4.hash_block(phase4.ROOT_HASH, (1, 2, 3, 4), ["salt", None]).hex(),
        digest.hex(),
        rule="The same content has the same hash, whatever sequence type it comes in.",
        situation="first call: tokens as a list, keys as a tuple; second call: the other way round",
        hint="do you hash the numbers, or how Python prints the sequence?",
    )


NONE_SO_FAR: tuple[str | None, ...] = (None, None)


@pytest.mark.task4_1
@pytest.mark.parametrize(
    ("what", "one", "other"),
    [
        ("the last token", ([1, 2, 3], ()), ([1, 2, 4], ())),
        ("the first token", ([1, 2, 3], ()), ([9, 2, 3], ())),
        ("the order of the tokens", ([1, 2, 3], ()), ([3, 2, 1], ())),
        ("where one token ends and the next begins", ([1, 23], ()), ([12, 3], ())),
        ("tokens over 255", ([256, 1], ()), ([0, 1], ())),
        ("tokens over 65535", ([65_537, 1], ()), ([1, 1], ())),
        ("the number of tokens", ([1, 2, 0], ()), ([1, 2], ())),
        ("the salt", ([1, 2], ("a", None)), ([1, 2], ("b", None))),
        ("whether there is a salt", ([1, 2], ("a", None)), ([1, 2], NONE_SO_FAR)),
        ("an empty salt", ([1, 2], ("", None)), ([1, 2], NONE_SO_FAR)),
        ("the adapter", ([1, 2], (None, "a")), ([1, 2], (None, "b"))),
        ("whether there is an adapter", ([1, 2], (None, "a")), ([1, 2], NONE_SO_FAR)),
        ("which of the extra keys it is", ([1, 2], ("a", None)), ([1, 2], (None, "a"))),
        ("where one extra key ends and the next begins", ([1, 2], ("ab", "c")), ([1, 2], ("a", "bc"))),
        ("the tokens beside a salt", ([1, 2], ("a", None)), ([1, 3], ("a", None))),
        ("the adapter beside a salt", ([1, 2], ("a", "b")), ([1, 2], ("a", None))),
    ],
)
def test_hash_depends_on(
    phase4: ModuleType,
    what: str,
    one: tuple[list[int], tuple[str | None, ...]],
    other: tuple[list[int], tuple[str | None, ...]],
) -> None:
    first, second = (phase4.hash_block(phase4.ROOT_HASH, tokens, keys) for tokens, keys in (one, other))
    expect_equal(
        "equal" if first == second else "different",
        "different",
        rule=f"The hash of a block depends on {what}.",
        situation=f"hash_block(ROOT_HASH, {one[0]}, {one[1]})\nhash_block(ROOT_HASH, {other[0]}, {other[1]})",
        hint="which bytes of yours differ between these two blocks?",
    )


@pytest.mark.task4_1
def test_no_two_contents_have_one_hash(phase4: ModuleType) -> None:
    numbers = (0, 1, 2, 10, 255, 256, 257, 65_535, 65_536, 2**31)
    contents = [list(tokens) for length in (1, 2, 3) for tokens in product(numbers, repeat=length)]
    first_with: dict[bytes, list[int]] = {}
    for tokens in contents:
        other = first_with.setdefault(phase4.hash_block(phase4.ROOT_HASH, tokens), tokens)
        expect_equal(
            other,
            tokens,
            rule="Blocks with different tokens have different hashes. (Compared: the first block with this hash.)",
            situation=f"hash_block(ROOT_HASH, tokens) gives the same for {other} and {tokens}",
            hint="can the tokens be read back from the bytes that you hash?",
        )


@pytest.mark.task4_1
def test_hash_depends_on_the_parent(phase4: ModuleType) -> None:
    root = phase4.ROOT_HASH
    parents = [root, phase4.hash_block(root, [1, 2]), phase4.hash_block(root, [1, 3])]
    plain = {phase4.hash_block(parent, [5, 6]) for parent in parents}
    salted = {phase4.hash_block(parent, [5, 6], ("a", None)) for parent in parents}
    expect_equal(
        [len(plain), len(salted), len(plain | salted)],
        [3, 3, 6],
        rule="The hash of a block depends on its parent's hash, with extra keys and without.",
        situation="block [5, 6] behind three parents, without extra keys and with salt 'a'; counted: different hashes",
        hint="K and V of a token depend on all tokens before it: where do those come into the hash?",
    )


@pytest.mark.task4_1
def test_hash_is_the_same_in_every_process(phase4: ModuleType) -> None:
    keys = [("salt", None), (None, "adapter"), *((f"salt {n}", f"adapter {n}") for n in range(9))]
    calls = f"[f(bytes(32), [1, 2, 3]), *(f(bytes(range(32)), [70000, 2], keys) for keys in {keys})]"
    here = [digest.hex() for digest in eval(calls, {"f": phase4.hash_block})]
    source = f"f = runpy.run_path({str(phase4.__file__)!r})['hash_block']"
    script = f"import runpy; {source}; print(*[d.hex() for d in {calls}])"
    root = Path(__file__).parents[2]
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "PYTHONPATH": os.pathsep.join([str(root), *sys.path])}
    other = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=60)
    same = sum(one == two for one, two in zip(here, other.stdout.split(), strict=False))
    expect_equal(
        f"{same} of {len(here)} hashes are the same",
        f"{len(here)} of {len(here)} hashes are the same",
        rule="A block has the same hash in every process and on every day.",
        situation=f"blocks with keys and without, hashed here and in another Python process\n{other.stderr[-300:]}",
        hint="which functions of Python give other values after a restart?",
    )


# Task 4.2: update_block_hashes


@pytest.mark.task4_2
@pytest.mark.parametrize(
    ("num_tokens", "block_size", "expected"),
    [(1, 4, 0), (3, 4, 0), (4, 4, 1), (5, 4, 1), (8, 4, 2), (11, 4, 2), (12, 4, 3), (3, 1, 3), (32, 16, 2)],
)
def test_only_full_blocks_have_a_hash(phase4: ModuleType, num_tokens: int, block_size: int, expected: int) -> None:
    cache = phase4.HashPrefixCache(block_size)
    request = make_request("A", num_tokens)
    counts = [len(hashes(cache, request)), len(hashes(cache, request))]
    expect_equal(
        counts,
        [expected, expected],
        rule="A request has one hash per full block, and a second update adds nothing.",
        situation=f"{num_tokens} tokens in blocks of {block_size}; hashes after the first and the second update",
        hint="the first update made as many as it should: at which block does the second one begin?"
        if counts[0] == expected
        else "a block that is not full will still change: what would its hash stand for?",
    )


@pytest.mark.task4_2
def test_hash_stands_for_the_whole_prefix(phase4: ModuleType) -> None:
    cache = phase4.HashPrefixCache(4)
    whole = hashes(cache, request_of("A", ABC))
    longer = hashes(cache, request_of("B", [*ABC, 41, 42, 43, 44, 51]))
    other_start = hashes(cache, request_of("C", [99, *ABC[1:]]))
    other_middle = hashes(cache, request_of("D", [*ABC[:5], 99, *ABC[6:]]))
    repeated = hashes(cache, request_of("E", ABC[:4] * 3))
    expect_rows(
        {
            "blocks of a longer request equal to A's": (
                [a == b for a, b in zip(whole, longer, strict=False)],
                [True, True, True],
            ),
            "another first token": ([a == b for a, b in zip(whole, other_start, strict=True)], [False, False, False]),
            "another token in the second block": (
                [a == b for a, b in zip(whole, other_middle, strict=True)],
                [True, False, False],
            ),
            "different hashes of three equal blocks": (len(set(repeated)), 3),
        },
        rule="A block's hash stands for all tokens up to the block's end, not for the block alone.",
        situation=f"A has the tokens {ABC}, block size 4",
        hint="what is the parent of the second block?",
    )


@pytest.mark.task4_2
def test_hashes_grow_with_the_request(phase4: ModuleType) -> None:
    cache = phase4.HashPrefixCache(4)
    at_once = hashes(cache, request_of("A", ABC))
    growing = request_of("B", ABC[:2])
    counts = [len(hashes(cache, growing))]
    for token in ABC[2:]:
        growing.all_token_ids.append(token)
        counts.append(len(hashes(cache, growing)))
    expect_rows(
        {
            "hashes after each token": (counts, [0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3]),
            "same as at once": (growing.block_hashes == at_once, True),
        },
        rule="Generated tokens fill blocks like prompt tokens, and the hashes do not depend on when they were made.",
        situation="B has the first 2 tokens of A as its prompt and then generates the other 10 one by one",
        hint="with 2 hashes there, at which token does the next block begin?",
    )


@pytest.mark.task4_2
def test_hashes_that_are_there_stay(phase4: ModuleType) -> None:
    cache = phase4.HashPrefixCache(4)
    marked, other = request_of("A", ABC), request_of("B", ABC)
    marked.block_hashes, other.block_hashes = [b"x" * 32], [b"y" * 32]
    after, after_other = hashes(cache, marked), hashes(cache, other)
    expect_rows(
        {
            "number": (len(after), 3),
            "first": (after[:1], [b"x" * 32]),
            "the rest follows from the first": (after[1:] != after_other[1:], True),
        },
        rule="An update appends behind the last hash that is there and hashes nothing a second time.",
        situation="block_hashes of A already has one entry (a mark put there by the test), A has 3 full blocks",
        hint="an update runs at every step: what may it cost for a request of 100,000 tokens?",
    )


@pytest.mark.task4_2
def test_tenants_and_adapters_have_hashes_of_their_own(phase4: ModuleType) -> None:
    cache = phase4.HashPrefixCache(4)
    keys: list[tuple[str | None, str | None]] = [(None, None), ("a", None), ("b", None), (None, "a"), ("a", "a")]
    made = {key: hashes(cache, request_of("A", ABC, salt=key[0], adapter=key[1])) for key in keys}
    again = {key: hashes(cache, request_of("B", ABC, salt=key[0], adapter=key[1])) for key in keys}
    different = [len({made[key][index] for key in keys}) for index in range(3)]
    expect_rows(
        {
            "different hashes per block": (different, [5, 5, 5]),
            "the same again for the same keys": (made == again, True),
        },
        rule="Requests with another salt or another adapter share no block, from the first to the last.",
        situation=f"the same 12 tokens with (cache_salt, adapter_id) = {keys}",
        hint="if the first block's hash differs, what makes the second one's differ?",
    )


# Task 4.4: find_longest_cache_hit


@pytest.mark.task4_4
@pytest.mark.parametrize(
    ("num_tokens", "expected"),
    [(1, []), (3, []), (4, []), (5, [7]), (8, [7]), (9, [7, 5]), (11, [7, 5]), (12, [7, 5]), (13, [7, 5, 9])],
)
def test_hit_is_whole_blocks_and_leaves_a_token(phase4: ModuleType, num_tokens: int, expected: list[int]) -> None:
    cache = cache_with_abc(phase4)
    yours = hit(cache, request_of("second", [*ABC, 41, 42][:num_tokens]))
    expect_equal(
        yours,
        expected,
        rule="A hit is whole blocks of at most num_tokens - 1 tokens: the last token must be computed.",
        situation=f"blocks 7, 5, 9 hold tokens 0-3, 4-7, 8-11; a request asks with the first {num_tokens} of them",
        hint="where would the logits for the next token come from if nothing were computed?"
        if len(yours) > len(expected)
        else f"how many hashes does this request have when you walk them, and how many blocks are in {num_tokens - 1}?",
    )


@pytest.mark.task4_4
def test_hit_ends_at_the_first_unknown_block(phase4: ModuleType) -> None:
    request = request_of("first", [*ABC, 41])
    cache = phase4.HashPrefixCache(4)
    cache.cache_full_blocks(request, [7, 5, 9], 0, 1)
    cache.cache_full_blocks(request, [7, 5, 9], 2, 3)
    headless = phase4.HashPrefixCache(4)
    headless.cache_full_blocks(request, [7, 5, 9], 1, 3)
    other = request_of("other", [*ABC[:4], 0, *ABC[5:], 41])
    expect_rows(
        {
            "A and C cached, B not": (hit(cache, request_of("second", [*ABC, 41])), [7]),
            "B and C cached, A not": (hit(headless, request_of("second", [*ABC, 41])), []),
            "A as asked, then another B": (hit(cache_with_abc(phase4), other), [7]),
            "C's tokens at the beginning": (hit(cache_with_abc(phase4), request_of("third", [*ABC[8:], 1])), []),
        },
        rule="A hit runs from the first block to the first unknown one; nothing behind that counts.",
        situation="blocks A, B, C of four tokens, in the blocks 7, 5, 9 of the memory",
        hint="a block table has no holes: what would stand in the place of B?",
    )


@pytest.mark.task4_4
@pytest.mark.parametrize(("tables", "expected"), [(([8], [3]), [8]), (([3], [8]), [3]), (([4], [9], [2]), [4])])
def test_of_equal_blocks_the_first_cached_wins(
    phase4: ModuleType, tables: tuple[list[int], ...], expected: list[int]
) -> None:
    cache = phase4.HashPrefixCache(4)
    for table in tables:
        cache.cache_full_blocks(request_of("twin", ABC[:4]), table, 0, 1)
    expect_equal(
        hit(cache, request_of("second", ABC[:6])),
        expected,
        rule="Of several blocks with the same content the hit takes the one that was cached first.",
        situation=f"equal blocks, cached in this order: {[table[0] for table in tables]}",
        hint="what does your map keep when the same hash comes a second time?",
    )


@pytest.mark.task4_4
def test_looking_up_takes_and_counts_nothing(phase4: ModuleType) -> None:
    cache = cache_with_abc(phase4)
    cache.pin(request_of("admitted", ABC[:10]), [7, 5], RecordingPool())
    request = request_of("second", [*ABC, 41])
    answers = [hit(cache, request) for _ in range(3)]
    expect_rows(
        {
            "three lookups": (answers, [[7, 5, 9]] * 3),
            "cached blocks": (cached_ids(cache), [5, 7, 9]),
            "hit rate": (round(float(cache.hit_rate()), 6), 8 / 10),
            "computed tokens": (request.num_computed_tokens, 0),
        },
        rule="A lookup changes nothing: a waiting request is looked up at every step until it is admitted.",
        situation="a request with 10 tokens was admitted with a hit of 8; another waits for three steps, its 12 first "
        "tokens are\ncached in blocks 7, 5, 9",
        hint="at which of the four moments (look up, pin, commit, forget) is a hit a hit?",
    )


@pytest.mark.task4_4
def test_hit_keeps_up_with_the_request(phase4: ModuleType) -> None:
    cache = cache_with_abc(phase4)
    growing = request_of("second", ABC[:6])
    before = hit(cache, growing)
    growing.all_token_ids += ABC[6:10]
    after = hit(cache, growing)
    victim = hit(cache, request_of("victim", [*ABC, 41], num_outputs=9))
    expect_rows(
        {
            "with 6 tokens": (before, [7]),
            "with 10 tokens": (after, [7, 5]),
            "with 9 of 13 generated": (victim, [7, 5, 9]),
        },
        rule="A lookup sees all tokens the request has now, generated ones too.",
        situation="blocks 7, 5, 9 hold tokens 0-3, 4-7, 8-11; a preempted request comes back with what it generated",
        hint="who brings `request.block_hashes` up to date before you walk them?",
    )


@pytest.mark.task4_4
def test_hit_stays_with_the_tenant(phase4: ModuleType) -> None:
    cache = phase4.HashPrefixCache(4)
    cache.cache_full_blocks(request_of("first", ABC, salt="a"), [7, 5, 9], 0, 3)
    asked = {"salt a": ("a", None), "no salt": (None, None), "salt b": ("b", None), "adapter a": (None, "a")}
    expect_equal(
        {who: hit(cache, request_of("second", [*ABC, 41], salt=key[0], adapter=key[1])) for who, key in asked.items()},
        {"salt a": [7, 5, 9], "no salt": [], "salt b": [], "adapter a": []},
        rule="A request hits only blocks of its own salt and adapter.",
        situation="blocks 7, 5, 9 were cached for salt 'a'; requests with the same tokens ask",
        hint="an answer that comes too fast tells another tenant's prompt: which hash keeps them apart?",
    )


# Task 4.3: pin, cache_full_blocks, hit_rate, cached_blocks


@pytest.mark.task4_3
@pytest.mark.parametrize(("first", "end", "expected"), [(0, 3, [0, 1, 2]), (1, 3, [1, 2]), (1, 2, [1]), (2, 2, [])])
def test_commit_enters_the_blocks_it_is_told(phase4: ModuleType, first: int, end: int, expected: list[int]) -> None:
    table = [7, 5, 9, 6]
    request = request_of("A", [*ABC, 41])
    cache = phase4.HashPrefixCache(4)
    cache.cache_full_blocks(request, table, first, end)
    names = {block_hash: f"hash {index}" for index, block_hash in enumerate(request.block_hashes)}
    yours = dict(cache.cached_blocks()).items()
    expect_equal(
        {f"block {block_id}": names.get(block_hash, "no hash of A") for block_id, block_hash in yours},
        {f"block {table[index]}": f"hash {index}" for index in expected},
        rule="cache_full_blocks enters blocks num_cached_blocks to num_full_blocks - 1, each with its own hash.",
        situation=f"A has 13 tokens in blocks of 4, table {table}; num_cached_blocks={first}, num_full_blocks={end}; "
        "cached then",
        hint="which hash of the request belongs to which place of the table?",
    )


@pytest.mark.task4_4
def test_commit_brings_the_hashes_up_to_date(phase4: ModuleType) -> None:
    cache = phase4.HashPrefixCache(4)
    request = request_of("A", ABC[:5])
    cache.cache_full_blocks(request, [7, 5], 0, 1)
    request.all_token_ids += ABC[5:9]
    cache.cache_full_blocks(request, [7, 5, 9], 1, 2)
    expect_rows(
        {
            "cached": (cached_ids(cache), [5, 7]),
            "hit of a second request": (hit(cache, request_of("B", [*ABC, 41])), [7, 5]),
        },
        rule="A commit hashes what the request has generated since the last one.",
        situation="A commits block 7 with 5 tokens; it generates 4 more and commits block 5",
        hint="the request was last hashed when it had 5 tokens: who hashes the second block?",
    )


@pytest.mark.task4_3
def test_equal_blocks_are_cached_side_by_side(phase4: ModuleType) -> None:
    cache = cache_with_abc(phase4)
    cache.cache_full_blocks(request_of("twin", ABC[:8]), [7, 3], 1, 2)
    held = cache.cached_blocks()
    expect_rows(
        {
            "cached": (cached_ids(cache), [3, 5, 7, 9]),
            "same hash": (held[5] == held.get(3), True),
        },
        rule="Two blocks may hold the same content; the cache knows both.",
        situation="A, B, C are in blocks 7, 5, 9; a twin hits A, computes B again and commits it as block 3",
        hint="does the second block with a hash replace the first in your map, or join it?",
    )


@pytest.mark.task4_3
def test_what_cached_blocks_gave_is_a_copy(phase4: ModuleType) -> None:
    cache = cache_with_abc(phase4)
    earlier = cache.cached_blocks()
    cache.cache_full_blocks(request_of("other", [1, 2, 3, 4]), [2], 0, 1)
    after_a_commit = sorted(earlier)
    earlier.clear()
    expect_rows(
        {
            "the earlier answer, after one more commit": (after_a_commit, [5, 7, 9]),
            "cached, after the earlier answer was emptied": (cached_ids(cache), [2, 5, 7, 9]),
        },
        rule="cached_blocks gives a copy: it stays as it was, and who changes it does not change the cache.",
        situation="blocks 7, 5, 9 are cached, cached_blocks is asked, block 2 is cached, and the answer is emptied",
        hint="whose dict do you hand out?",
    )


@pytest.mark.task4_3
def test_adopt_touches_each_hit_block_once(phase4: ModuleType) -> None:
    cache = cache_with_abc(phase4)
    pool, idle_pool = RecordingPool(), RecordingPool()
    cache.pin(request_of("second", [*ABC, 41]), [7, 5, 9], pool)
    cache.pin(request_of("third", [1, 2]), [], idle_pool)
    expect_rows(
        {
            "touched": (sorted(pool.touched), [5, 7, 9]),
            "touched without a hit": (idle_pool.touched, []),
            "cached": (cached_ids(cache), [5, 7, 9]),
        },
        rule="Adopting pins each hit block with `pool.touch`, and the blocks stay in the cache.",
        situation="a request with the hit [7, 5, 9] is admitted, then one without a hit",
        hint="somebody else may hold the block already: what does one more holder change?",
    )


@pytest.mark.task4_3
def test_hit_rate_counts_tokens_of_admitted_requests(phase4: ModuleType) -> None:
    cache = cache_with_abc(phase4)
    rates = [cache.hit_rate()]
    for request, hit_blocks in [
        (request_of("cold", [1, 2, 3, 4]), []),
        (request_of("warm", ABC[:10]), [7, 5]),
        (request_of("victim", [*ABC, 41, 42], num_outputs=6), [7, 5, 9]),
    ]:
        cache.pin(request, hit_blocks, RecordingPool())
        rates.append(cache.hit_rate())
    expect_equal(
        [round(float(rate), 6) for rate in rates],
        [round(rate, 6) for rate in (0.0, 0 / 4, 8 / 14, 20 / 28)],
        rule="hit_rate is hit tokens over all tokens of the requests that were admitted, and 0.0 before the first.",
        situation="at the start | admitted: 4 tokens, no hit | then 10 tokens, 2 hit blocks of 4 |\n"
        "then 14 tokens, 6 of them generated, 3 hit blocks",
        hint="do you count blocks or tokens, of the prompt or of all, and does a request without a hit count?",
    )


# Task 4.5: evict and drop_uncomputed


@pytest.mark.task4_5
def test_evict_says_whether_the_block_was_cached(phase4: ModuleType) -> None:
    cache = cache_with_abc(phase4)
    answers = {
        "block 5, cached": cache.evict(5),
        "block 5, a second time": cache.evict(5),
        "block 6, never cached": cache.evict(6),
        "cached now": cached_ids(cache),
    }
    expect_equal(
        answers,
        {
            "block 5, cached": True,
            "block 5, a second time": False,
            "block 6, never cached": False,
            "cached now": [7, 9],
        },
        rule="evict forgets the one block and says whether it was in the cache.",
        situation="blocks 7, 5, 9 are cached",
        hint="every block that is handed out is evicted first: must it have been in the cache?",
    )


@pytest.mark.task4_5
@pytest.mark.parametrize(
    ("evicted", "expected"), [([8], [3]), ([3], [8]), ([6], [8]), ([8, 3], [6]), ([8, 3, 6], []), ([6, 3], [8])]
)
def test_when_a_block_is_evicted_its_twin_serves(phase4: ModuleType, evicted: list[int], expected: list[int]) -> None:
    cache = phase4.HashPrefixCache(4)
    for block_id in (8, 3, 6):
        cache.cache_full_blocks(request_of("twin", ABC[:4]), [block_id], 0, 1)
    for block_id in evicted:
        cache.evict(block_id)
    expect_rows(
        {
            "hit": (hit(cache, request_of("second", ABC[:6])), expected),
            "cached": (cached_ids(cache), sorted({8, 3, 6} - set(evicted))),
        },
        rule="Evicting a block leaves the others with the same content in the cache, and the oldest of them serves.",
        situation=f"equal blocks cached in the order 8, 3, 6; evicted: {evicted}",
        hint="what is left in your map from hash to blocks when one of three goes?",
    )


@pytest.mark.task4_5
def test_a_block_in_a_new_life_holds_new_content(phase4: ModuleType) -> None:
    cache = cache_with_abc(phase4)
    cache.evict(5)
    with_hole = hit(cache, request_of("second", [*ABC, 41]))
    cache.cache_full_blocks(request_of("other", [1, 2, 3, 4]), [5], 0, 1)
    expect_rows(
        {
            "A B C with B evicted": (with_hole, [7]),
            "A B C with block 5 reused": (hit(cache, request_of("second", [*ABC, 41])), [7]),
            "the new owner's tokens": (hit(cache, request_of("third", [1, 2, 3, 4, 5])), [5]),
            "evict(5) again": (cache.evict(5), True),
        },
        rule="After an eviction nobody finds the old content in the block, and the new content counts.",
        situation="A, B, C are in blocks 7, 5, 9; block 5 is evicted and filled by another request",
        hint="is the block out of both maps, in both directions?",
    )


@pytest.mark.task4_5
def test_uncache_forgets_only_what_it_is_given(phase4: ModuleType) -> None:
    cache = cache_with_abc(phase4)
    cache.cache_full_blocks(request_of("twin", ABC[:8]), [7, 3], 1, 2)
    cache.drop_uncomputed([])
    cache.drop_uncomputed([5, 6, 9])
    expect_rows(
        {
            "cached": (cached_ids(cache), [3, 7]),
            "hit of A B C": (hit(cache, request_of("second", [*ABC, 41])), [7, 3]),
            "evict(5)": (cache.evict(5), False),
            "evict(7)": (cache.evict(7), True),
        },
        rule="drop_uncomputed forgets the given blocks and no other; a block that is not in the cache is fine.",
        situation="A, B, C in blocks 7, 5, 9, B also in block 3; drop_uncomputed([]), then drop_uncomputed([5, 6, 9])",
        hint="some blocks of a table were never entered: what happens to those behind them in the list?",
    )


@pytest.mark.task4_5
@pytest.mark.parametrize(("seed", "block_size"), [(1, 2), (2, 2), (3, 3), (4, 3), (5, 4), (6, 1)])
def test_random_workload_against_the_naive_cache(phase4: ModuleType, seed: int, block_size: int) -> None:
    workload = RandomWorkload(phase4.HashPrefixCache(block_size), block_size, seed)
    workload.play(num_events=200)
    assert workload.num_hits_seen > 10, "the workload itself is too easy: it saw hardly any hit"
