"""Graded tests of task 4.5."""

from types import ModuleType

import pytest

from course.labtest.phase4.cases import ABC, cache_with_abc, cached_ids, hit, request_of
from course.labtest.phase4.reference_cache import RandomWorkload
from course.labtest.support import expect_equal, expect_rows


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


@pytest.mark.parametrize(("seed", "block_size"), [(1, 2), (2, 2), (3, 3), (4, 3), (5, 4), (6, 1)])
def test_random_workload_against_the_naive_cache(phase4: ModuleType, seed: int, block_size: int) -> None:
    workload = RandomWorkload(phase4.HashPrefixCache(block_size), block_size, seed)
    workload.play(num_events=200)
    assert workload.num_hits_seen > 10, "the workload itself is too easy: it saw hardly any hit"
