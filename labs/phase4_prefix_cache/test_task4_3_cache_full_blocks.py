"""Graded tests of task 4.3."""

from collections.abc import Sequence
from types import ModuleType

import pytest

from course.labtest.expect import alone, expect_equal
from course.labtest.phase4.cases import ABC, RecordingPool, cache_with_abc, cached_ids, commit, pin, request_of
from course.labtest.phase4.work import check_cost


@pytest.mark.parametrize(("first", "end", "expected"), [(0, 3, [0, 1, 2]), (1, 3, [1, 2]), (1, 2, [1]), (2, 2, [])])
def test_the_blocks_between_the_two_numbers_enter_the_cache(
    phase4: ModuleType, first: int, end: int, expected: list[int]
) -> None:
    table: Sequence[int] = (7, 5, 9, 6) if first else [7, 5, 9, 6]
    request = request_of("A", [*ABC, 41])
    cache = phase4.HashPrefixCache(4)
    commit(cache, request, table, first, end)
    names = {block_hash: f"hash {index}" for index, block_hash in enumerate(request.block_hashes)}
    yours = dict(cache.cached_blocks()).items()
    expect_equal(
        {f"block {block_id}": names.get(block_hash, "no hash of A") for block_id, block_hash in yours},
        {f"block {table[index]}": f"hash {index}" for index in expected},
        rule="cache_full_blocks enters blocks num_cached_blocks to num_full_blocks - 1, each with its own hash.",
        situation=f"A has 13 tokens in blocks of 4, table {table}; num_cached_blocks={first}, num_full_blocks={end}; "
        "cached then",
        hint="which hash of the request belongs to which place of the table?"
        if {block_id for block_id, _ in yours} == {table[index] for index in expected}
        else f"which places of the table do {first} and {end} name, by the rule?",
    )


def test_equal_blocks_are_cached_side_by_side(phase4: ModuleType) -> None:
    cache = cache_with_abc(phase4)
    commit(cache, request_of("second", ABC[:8]), [2, 3], 0, 2)
    cached = cache.cached_blocks()
    yours = {"cached": cached_ids(cache), "same hash": cached.get(5) == cached.get(3)}
    expected = {"cached": [2, 3, 5, 7, 9], "same hash": True}
    expect_equal(
        yours,
        expected,
        rule="Two blocks may hold the same content; the cache has both.",
        situation="A, B, C are in blocks 7, 5, 9; a second request has computed A and B too, and commits them as 2, 3",
        hint=alone(yours, expected, ["same hash"])
        or "which blocks does each commit enter? Does a second one of a hash replace the first, join it, stay out?",
    )


def test_the_map_of_cached_blocks_is_a_copy(phase4: ModuleType) -> None:
    cache = cache_with_abc(phase4)
    earlier = cache.cached_blocks()
    commit(cache, request_of("other", [1, 2, 3, 4]), [2], 0, 1)
    cache.cached_blocks()
    after_a_commit = sorted(earlier)
    earlier.clear()
    expect_equal(
        {
            "the earlier answer, after one more commit": after_a_commit,
            "cached, after the earlier answer was emptied": cached_ids(cache),
        },
        {
            "the earlier answer, after one more commit": [5, 7, 9],
            "cached, after the earlier answer was emptied": [2, 5, 7, 9],
        },
        rule="cached_blocks returns a copy: it does not change later, and changing it does not change the cache.",
        situation="blocks 7, 5, 9 are cached, cached_blocks is called, block 2 is cached, and the answer is emptied",
        hint="which dict do you return?",
    )


def test_pin_touches_each_hit_block_once(phase4: ModuleType) -> None:
    cache = cache_with_abc(phase4)
    pool, idle_pool = RecordingPool(), RecordingPool()
    pin(cache, request_of("second", [*ABC, 41]), [7, 5, 9], pool)
    pin(cache, request_of("third", [1, 2]), (), idle_pool)
    yours = {
        "touched": sorted(pool.touched, key=str),
        "touched without a hit": idle_pool.touched,
        "cached": cached_ids(cache),
    }
    expected = {"touched": [5, 7, 9], "touched without a hit": [], "cached": [5, 7, 9]}
    expect_equal(
        yours,
        expected,
        rule="pin calls `pool.touch` once for each hit block, and the blocks stay in the cache.",
        situation="a request with the hit [7, 5, 9] is admitted, then one without a hit",
        hint=alone(yours, expected, ["cached"])
        or "with which block ids, and how often, does your pin call `pool.touch` here?",
    )


def test_hit_rate_counts_tokens_of_admitted_requests(phase4: ModuleType) -> None:
    cache = cache_with_abc(phase4)
    rates = [cache.hit_rate()]
    for request, hit_blocks in [
        (request_of("cold", [1, 2, 3, 4]), []),
        (request_of("warm", ABC[:10]), [7, 5]),
        (request_of("victim", [*ABC, 41, 42], num_outputs=6), [7, 5, 9]),
        (request_of("victim", [*ABC, 41, 42], num_outputs=6), [7]),
    ]:
        pin(cache, request, hit_blocks, RecordingPool())
        rates.append(cache.hit_rate())
    for number in range(2000):
        pin(cache, request_of(f"cold {number}", [1, 2, 3, 4]), [], RecordingPool())
    rates.append(cache.hit_rate())
    many = request_of("many", [7] * 100_001)
    for hit_blocks in ([1] * 20_000, *[[]] * 39):
        pin(cache, many, hit_blocks, RecordingPool())
    rates.append(cache.hit_rate())
    expect_equal(
        [round(float(rate), 6) for rate in rates],
        [round(rate, 6) for rate in (0.0, 0 / 4, 8 / 14, 20 / 28, 24 / 42, 24 / 8042, 80_024 / 4_008_082)],
        rule="hit_rate is hit tokens over all tokens of the requests, counted at each admission; 0.0 before the first.",
        situation="at the start | admitted: 4 tokens, no hit | then 10 tokens, 2 hit blocks of 4 |\n"
        "then 14 tokens, 6 of them generated, 3 hit blocks | the same request again after a preemption, 1 hit block |\n"
        "then 2,000 requests of 4 tokens without a hit | one of 100,001 tokens with 20,000 hit blocks, 39 without",
        hint="for each of these admissions: how many tokens are hit, how many in all, and what do you make of the two?"
        if rates[0] == 0
        else "this cache has admitted no request yet: from where does its first rate come?",
    )


@pytest.mark.parametrize("call", ["cache_full_blocks with one new block", "pin without a hit", "hit_rate"])
def test_a_large_cache_costs_no_more(phase4: ModuleType, call: str) -> None:
    check_cost(phase4, call)
