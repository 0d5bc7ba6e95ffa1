"""Graded tests of task 4.3."""

from types import ModuleType

import pytest

from course.labtest.phase4.cases import ABC, cache_with_abc, cached_ids, request_of
from course.labtest.phase4.reference_cache import RecordingPool
from course.labtest.support import expect_equal, expect_rows


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
