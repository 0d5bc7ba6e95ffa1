"""Graded tests of task 4.5."""

from types import ModuleType

import pytest

from course.labtest.cost import check_keeps_nothing
from course.labtest.expect import alone, expect_equal
from course.labtest.phase4.cases import (
    ABC,
    RecordingPool,
    cache_with_abc,
    cached_ids,
    commit,
    drop,
    evict,
    hit,
    request_of,
)
from course.labtest.phase4.random_workload import RandomWorkload
from course.labtest.phase4.work import check_cost
from course.labtest.recorded import Answers
from mini_vllm.core.request import Request


def test_evict_returns_whether_the_block_was_cached(phase4: ModuleType) -> None:
    cache = cache_with_abc(phase4)
    answers = {
        "block 5, cached": evict(cache, 5),
        "block 5, a second time": evict(cache, 5),
        "block 6, never cached": evict(cache, 6),
    }
    yours = {**answers, "cached now": cached_ids(cache)}
    expected = dict(zip(yours, (True, False, False, [7, 9]), strict=True))
    expect_equal(
        yours,
        expected,
        rule="evict forgets the one block and returns whether it was in the cache.",
        situation="blocks 7, 5, 9 are cached",
        hint=alone(yours, expected, ["cached now"])
        or (
            "block 5 was evicted, and a second evict finds it again. Which of your dicts still has it?"
            if answers["block 5, a second time"] and 5 in cached_ids(cache)
            else "every block that is handed out is evicted first: must it have been in the cache?"
            if answers["block 6, never cached"]
            else "which value does each way through your evict return?"
        ),
    )


@pytest.mark.parametrize(
    ("evicted", "expected"), [([8], [3]), ([3], [8]), ([6], [8]), ([8, 3], [6]), ([8, 3, 6], [12]), ([6, 3], [8])]
)
def test_equal_blocks_outlive_each_other(phase4: ModuleType, evicted: list[int], expected: list[int]) -> None:
    cache = phase4.HashPrefixCache(4)
    for block_id in (8, 3, 6, 12, 9, 1):
        commit(cache, request_of("equal", ABC[:4]), [block_id], 0, 1)
    answers = [evict(cache, block_id) for block_id in evicted]
    yours = {"hit": hit(cache, request_of("second", ABC[:6])), "cached": cached_ids(cache), "evict returned": answers}
    right = {
        "hit": expected,
        "cached": sorted({8, 3, 6, 12, 9, 1} - set(evicted)),
        "evict returned": [True] * len(evicted),
    }
    expect_equal(
        yours,
        right,
        rule="Evicting a block leaves the others with the same content in the cache, and the oldest of them is hit.",
        situation=f"equal blocks cached in the order 8, 3, 6, 12, 9, 1; evicted: {evicted}",
        hint="each of these blocks was in the cache. What does your evict return while an equal block stays?"
        if alone(yours, right, ["evict returned"])
        else alone(yours, right, ["cached"])
        or "what is left in your map from hash to blocks when one of several is evicted?",
    )


def test_a_block_that_is_handed_out_again_holds_new_content(phase4: ModuleType) -> None:
    cache = cache_with_abc(phase4)
    evict(cache, 5)
    with_hole = hit(cache, request_of("second", [*ABC, 41]))
    commit(cache, request_of("other", [1, 2, 3, 4]), [5], 0, 1)
    reused = hit(cache, request_of("second", [*ABC, 41]))
    expect_equal(
        {
            "A B C with B evicted": with_hole,
            "A B C with block 5 reused": reused,
            "the new owner's tokens": hit(cache, request_of("third", [1, 2, 3, 4, 5])),
            "evict(5) again": evict(cache, 5),
        },
        {
            "A B C with B evicted": [7],
            "A B C with block 5 reused": [7],
            "the new owner's tokens": [5],
            "evict(5) again": True,
        },
        rule="After an eviction no lookup finds the old content in the block, and the new content counts.",
        situation="A, B, C are in blocks 7, 5, 9; block 5 is evicted and filled by another request",
        hint="is the block out of both maps, in both directions?"
        if [with_hole, reused] != [[7], [7]]
        else "block 5 was committed again, with other content: what do both of your maps have of it?",
    )


def test_a_lookup_sees_the_cache_as_it_is_now(phase4: ModuleType) -> None:
    cache = cache_with_abc(phase4)
    request = request_of("second", [*ABC, 41])
    first = cache.find_longest_cache_hit(request)
    answers: list[list[int]] = []
    evict(cache, 9)
    answers.append(hit(cache, request))
    commit(cache, request_of("third", ABC), [7, 5, 4], 2, 3)
    answers.append(hit(cache, request))
    if isinstance(first, list):
        first.append(99)
    answers.append(hit(cache, request))
    expect_equal(
        answers,
        [[7, 5], [7, 5, 4], [7, 5, 4]],
        rule="Each lookup answers for this moment: the same request can hit more or fewer blocks in the next step.",
        situation="a request hits blocks 7, 5, 9 | block 9 is evicted | its content is cached again, in block 4 | the "
        "first answer\nis changed; compared: the lookups after each of the three",
        hint="which lookup differs first? What has changed before it, and where does your lookup read that?",
    )


def test_drop_uncomputed_forgets_only_the_given_blocks(phase4: ModuleType) -> None:
    cache = cache_with_abc(phase4)
    commit(cache, request_of("second", ABC[:8]), [7, 3], 1, 2)
    drop(cache, ())
    drop(cache, [5, 6, 9])
    left = cached_ids(cache)
    expect_equal(
        {
            "cached": left,
            "hit of A B C": hit(cache, request_of("third", [*ABC, 41])),
            "evict(5)": bool(evict(cache, 5)),
            "evict(7)": bool(evict(cache, 7)),
        },
        {"cached": [3, 7], "hit of A B C": [7, 3], "evict(5)": False, "evict(7)": True},
        rule="drop_uncomputed forgets the given blocks and no other; a block that is not in the cache is fine.",
        situation="A, B, C in blocks 7, 5, 9, B also in block 3; drop_uncomputed(()), then drop_uncomputed([5, 6, 9])",
        hint="some blocks of a table were never entered: what happens to those after them in the list?"
        if 9 in left and 5 not in left
        else "which of 5, 6 and 9 are in the cache, which other block holds what 5 holds, and what is left of each?",
    )


@pytest.mark.parametrize("way_out", ["evict", "drop_uncomputed"])
def test_an_emptied_cache_keeps_nothing(phase4: ModuleType, way_out: str) -> None:
    cache = phase4.HashPrefixCache(4)

    def use(name: str) -> Request:
        request = request_of(name, [*name.encode()] * 4, salt=name)
        cache.find_longest_cache_hit(request_of("waits", request.all_token_ids, salt=f"{name} is aborted"))
        cache.find_longest_cache_hit(request)
        cache.pin(request, [], RecordingPool())
        for block_id in (8, 7):  # what a request has filled stays until the next one is here
            evict(cache, block_id) if way_out == "evict" else drop(cache, [block_id])
        commit(cache, request, [7], 0, 1)
        commit(cache, request, [8], 0, 1)
        return request

    check_keeps_nothing(
        phase4,
        use,
        cache,
        what="requests were looked up and aborted, and others admitted and cached in two blocks,\nwhich the next one "
        f"forgets by {way_out}",
        rule="A forgotten block leaves nothing behind, a hash without blocks leaves the map, and no request is "
        "remembered. Else a server keeps an entry for every block that it has ever cached.",
        hint="what becomes of a hash without blocks? What do you keep of blocks or requests that are gone?",
    )


def test_evicting_costs_the_same_in_a_large_cache(phase4: ModuleType) -> None:
    check_cost(phase4, "evict")


@pytest.mark.parametrize(
    ("seed", "block_size", "many"), [(1, 2, 1), (2, 2, 1), (3, 3, 1), (4, 3, 1), (5, 4, 1), (6, 1, 1), (7, 3, 8)]
)
def test_random_workload_against_the_naive_cache(
    phase4: ModuleType, answers: Answers, seed: int, block_size: int, many: int
) -> None:
    workload = RandomWorkload(phase4.HashPrefixCache(block_size), answers, block_size, seed, many)
    workload.run(num_events=200)
    assert workload.num_hits_seen > 10, "the workload itself is too easy: it saw hardly any hit"
