"""Graded tests of task 4.4."""

from types import ModuleType

import pytest

from course.labtest.expect import alone, expect_equal
from course.labtest.phase4.cases import ABC, RecordingPool, cache_with_abc, cached_ids, commit, hit, pin, request_of
from course.labtest.phase4.work import check_cost


def test_two_caches_share_nothing(phase4: ModuleType) -> None:
    first, second = cache_with_abc(phase4), phase4.HashPrefixCache(4)
    commit(second, request_of("second", ABC), [11, 12, 13], 0, 3)
    in_first, in_second = (hit(cache, request_of("third", [*ABC, 41])) for cache in (first, second))
    expect_equal(
        {
            "blocks of the second hit in the first": [block for block in in_first if block in (11, 12, 13)],
            "blocks of the first hit in the second": [block for block in in_second if block in (7, 5, 9)],
        },
        {"blocks of the second hit in the first": [], "blocks of the first hit in the second": []},
        rule="Each cache has maps of its own: two engines in one process share no block.",
        situation="A, B, C are in blocks 7, 5, 9 of one cache; then another is made, and has them in blocks 11 to 13",
        hint="where do your maps belong: to each object, or to the class or the file, where all caches see them?",
    )


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
        situation=f"blocks 7, 5, 9 hold tokens 0-3, 4-7, 8-11; a request has the first {num_tokens} of them",
        hint="the number of blocks is right: which block does each hash lead to, and in which order?"
        if len(yours) == len(expected)
        else f"how many blocks are in {num_tokens - 1} tokens, and how many hashes are there when you walk them?",
    )


@pytest.mark.parametrize(
    ("num_tokens", "num_hit"),
    [(15, 0), (16, 0), (17, 1), (32, 1), (33, 2), (992, 61), (993, 62), (5120, 319), (5121, 320)],
)
def test_hits_at_block_size_16(phase4: ModuleType, num_tokens: int, num_hit: int) -> None:
    cache = phase4.HashPrefixCache(16)
    tokens, table = [number * 7 % 900 for number in range(5200)], list(range(320, 0, -1))
    commit(cache, request_of("first", tokens), table, 0, 320)
    found = hit(cache, request_of("second", tokens[:num_tokens]))
    yours = {"hit blocks": len(found), "in the order of the table": found == table[: len(found)]}
    expected = {"hit blocks": num_hit, "in the order of the table": True}
    expect_equal(
        yours,
        expected,
        rule="A hit is whole blocks of at most num_tokens - 1 tokens, however many they are.",
        situation=f"320 blocks of 16 are cached; a request with the first {num_tokens} of their tokens is looked up",
        hint=alone(yours, expected, ["in the order of the table"])
        or f"how many whole blocks of 16 are in {num_tokens - 1} tokens?",
    )


def test_a_hit_may_have_thousands_of_blocks(phase4: ModuleType) -> None:
    cache, tokens, table = phase4.HashPrefixCache(2), [n % 900 for n in range(10_001)], list(range(9000, 4000, -1))
    commit(cache, request_of("first", tokens), table, 0, 5000)
    found = hit(cache, request_of("second", tokens))
    expect_equal(
        {"blocks hit": len(found), "the last of them": found[-1:]},
        {"blocks hit": 5000, "the last of them": [4001]},
        rule="A hit runs to the first unknown block, however many blocks come before it.",
        situation="blocks of 2; 10,001 tokens, cached in the blocks 9000 to 4001; the same tokens again",
        hint="what ends your loop besides an unknown block, and the last token?",
    )


def test_hit_ends_at_the_first_unknown_block(phase4: ModuleType) -> None:
    request = request_of("first", [*ABC, 41])
    cache = phase4.HashPrefixCache(4)
    commit(cache, request, [7, 5, 9], 0, 1)
    commit(cache, request, [7, 5, 9], 2, 3)
    headless = phase4.HashPrefixCache(4)
    commit(headless, request, [7, 5, 9], 1, 3)
    other = request_of("other", [*ABC[:4], 0, *ABC[5:], 41])
    expect_equal(
        {
            "A and C cached, B not": hit(cache, request_of("second", [*ABC, 41])),
            "B and C cached, A not": hit(headless, request_of("second", [*ABC, 41])),
            "A cached, then another B": hit(cache_with_abc(phase4), other),
            "C's tokens at the beginning": hit(cache_with_abc(phase4), request_of("third", [*ABC[8:], 1])),
        },
        {
            "A and C cached, B not": [7],
            "B and C cached, A not": [],
            "A cached, then another B": [7],
            "C's tokens at the beginning": [],
        },
        rule="A hit runs from the first block to the first unknown one; nothing after that counts.",
        situation="blocks A, B, C of four tokens, in the blocks 7, 5, 9 of the memory",
        hint="a block table has no holes: in the case that differs, which is the first block that is not cached?",
    )


@pytest.mark.parametrize(("tables", "expected"), [(([8], [3]), [8]), (([3], [8]), [3]), (([4], [9], [2]), [4])])
def test_of_equal_blocks_the_first_cached_wins(
    phase4: ModuleType, tables: tuple[list[int], ...], expected: list[int]
) -> None:
    cache = phase4.HashPrefixCache(4)
    for table in tables:
        commit(cache, request_of("equal", ABC[:4]), table, 0, 1)
    expect_equal(
        hit(cache, request_of("second", ABC[:6])),
        expected,
        rule="Of several blocks with the same content the hit takes the one that was cached first.",
        situation=f"equal blocks, cached in this order: {[table[0] for table in tables]}",
        hint="what does your map keep when the same hash comes a second time, and by what does your lookup choose?",
    )


def test_a_lookup_counts_nothing(phase4: ModuleType) -> None:
    cache = cache_with_abc(phase4)
    pin(cache, request_of("admitted", ABC[:10]), [7, 5], RecordingPool())
    request, rate_before = request_of("second", [*ABC, 41]), cache.hit_rate()
    answers = [hit(cache, request) for _ in range(3)]
    expect_equal(
        {"three lookups": answers, "cached blocks": cached_ids(cache), "hit rate": cache.hit_rate()},
        {"three lookups": [[7, 5, 9]] * 3, "cached blocks": [5, 7, 9], "hit rate": rate_before},
        rule="A lookup changes nothing: a waiting request is looked up at every step until it is admitted.",
        situation="a request with 10 tokens was admitted with a hit of 8; another waits for three steps, its 12 first "
        "tokens are\ncached in blocks 7, 5, 9",
        hint="at which of the four moments (look up, pin, commit, forget) is a hit counted? What does a lookup leave?",
    )


def test_hit_keeps_up_with_the_request(phase4: ModuleType) -> None:
    cache = cache_with_abc(phase4)
    growing = request_of("second", ABC[:6])
    before = hit(cache, growing)
    growing.all_token_ids += ABC[6:10]
    after = hit(cache, growing)
    resumed = hit(cache, request_of("resumed", [*ABC, 41], num_outputs=9))
    expect_equal(
        {"with 6 tokens": before, "with 10 tokens": after, "with 9 of 13 generated": resumed},
        {"with 6 tokens": [7], "with 10 tokens": [7, 5], "with 9 of 13 generated": [7, 5, 9]},
        rule="A lookup sees all tokens the request has now, generated ones too.",
        situation="blocks 7, 5, 9 hold tokens 0-3, 4-7, 8-11; a preempted request comes back with what it generated",
        hint="which tokens do the hashes that you walk cover, and how many blocks do you allow?",
    )


def test_hit_stays_with_the_tenant(phase4: ModuleType) -> None:
    cache = phase4.HashPrefixCache(4)
    commit(cache, request_of("first", ABC, salt="a"), [7, 5, 9], 0, 3)
    commit(cache, request_of("first", ABC, salt=""), [2, 3, 4], 0, 3)
    keys = {
        "salt a": ("a", None),
        "no salt": (None, None),
        "empty salt": ("", None),
        "salt b": ("b", None),
        "adapter a": (None, "a"),
    }
    expect_equal(
        {name: hit(cache, request_of(name, [*ABC, 41], salt=key[0], adapter=key[1])) for name, key in keys.items()},
        {"salt a": [7, 5, 9], "no salt": [], "empty salt": [2, 3, 4], "salt b": [], "adapter a": []},
        rule="A request hits only blocks of its own salt and adapter. An empty salt is a salt of its own.",
        situation="blocks 7, 5, 9 were cached for salt 'a', blocks 2, 3, 4 for salt ''; requests with the same tokens "
        "are looked up",
        hint="what of salt and adapter is in the first hash of a request, at a commit and at a lookup?",
    )


@pytest.mark.parametrize("call", ["find_longest_cache_hit, per block", "find_longest_cache_hit without a hit"])
def test_a_lookup_costs_the_same_for_each_block(phase4: ModuleType, call: str) -> None:
    check_cost(phase4, call)


def test_commit_brings_the_hashes_up_to_date(phase4: ModuleType) -> None:
    cache = phase4.HashPrefixCache(4)
    request = request_of("A", ABC[:5])
    commit(cache, request, [7, 5], 0, 1)
    request.all_token_ids += ABC[5:9]
    commit(cache, request, [7, 5, 9], 1, 2)
    expect_equal(
        {"cached": cached_ids(cache), "hit of a second request": hit(cache, request_of("B", [*ABC, 41]))},
        {"cached": [5, 7], "hit of a second request": [7, 5]},
        rule="A commit hashes what the request has generated since the last one.",
        situation="A commits block 7 with 5 tokens; it generates 4 more and commits block 5",
        hint="the request was last hashed when it had 5 tokens: where is the second block hashed?",
    )
