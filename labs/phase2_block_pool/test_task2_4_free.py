"""Graded tests of task 2.4."""

import random
from types import ModuleType

import pytest

from course.labtest.phase2.cases import (
    NUM_STATES,
    SEEDS,
    _manager_differs,
)
from course.labtest.phase2.harness import ManagerBench
from course.labtest.support import compare, fail_with_smallest, make_request


def test_blocks_come_back_last_one_first(phase2: ModuleType) -> None:
    bench = ManagerBench(phase2, 6)
    first, second = make_request("A", 12), make_request("B", 5)
    bench.allocate(first, 12)
    bench.allocate(second, 5)
    bench.free(first)
    bench.check(
        "A freed request gives its blocks back tail first, to the back of the free queue. So the front of a prompt, "
        "which others may share, survives longest.",
        "which of A's blocks should be handed out again first?",
        tables={"B": [4, 5]},
        free_queue=[6, 3, 2, 1],
        num_free=4,
        holders={4: 1, 5: 1},
    )
    bench.free(second)
    bench.check("All blocks are free again.", "what is left?", free_queue=[6, 3, 2, 1, 5, 4], tables={}, holders={})


def test_freed_blocks_are_handed_out_last(phase2: ModuleType) -> None:
    bench = ManagerBench(phase2, 5)
    first, second = make_request("A", 8), make_request("B", 16)
    bench.allocate(first, 8)
    bench.free(first)
    bench.allocate(second, 16)
    bench.check(
        "The free queue is the order in which blocks are handed out, front first.",
        "which block has been free longest?",
        returned=[3, 4, 5, 2],
        free_queue=[1],
        holders={2: 1, 3: 1, 4: 1, 5: 1},
    )


def test_freeing_nothing_is_fine(phase2: ModuleType) -> None:
    bench = ManagerBench(phase2, 4)
    request = make_request("A", 6)
    bench.free(make_request("never seen", 6))
    bench.allocate(request, 6)
    bench.free(request)
    bench.free(request)
    bench.check(
        "A request without blocks can be freed: nothing happens.",
        "what does your second free find, and what does it give back?",
        tables={},
        free_queue=[3, 4, 2, 1],
        num_free=4,
        holders={},
    )


def test_a_freed_request_is_admitted_like_a_new_one(phase2: ModuleType) -> None:
    bench = ManagerBench(phase2, 5)
    request = make_request("A", 10)
    bench.allocate(request, 10)
    bench.free(request)
    request.num_computed_tokens = 0
    bench.cache.take_calls()
    bench.allocate(request, 6, hits=[1])
    bench.check(
        "A request that was freed has no table. Its next allocation is an admission, with a hit as for a new one.",
        "what of the request does the manager remember after free?",
        returned=[4, 5],
        tables={"A": [1, 4, 5]},
        free_queue=[3, 2],
        holders={1: 1, 4: 1, 5: 1},
        cache_calls=["pin(A, [1])", "evict(4)", "evict(5)", "cache_full_blocks(A, [1, 4], 1, 2)"],
    )


def test_shared_blocks_stay_until_their_last_holder_goes(phase2: ModuleType) -> None:
    bench = ManagerBench(phase2, 6)
    first, second = make_request("A", 12), make_request("B", 12)
    bench.allocate(first, 10)
    bench.allocate(second, 3, hits=[1, 2])
    bench.check(
        "A block is counted once for each table that it stands in; blocks that nobody holds are not listed.",
        "who holds block 1?",
        free_queue=[5, 6],
        holders={1: 2, 2: 2, 3: 1, 4: 1},
    )
    bench.free(first)
    bench.check(
        "Blocks that B shares are not free when A goes.",
        "how many holders have blocks 1 and 2 left?",
        tables={"B": [1, 2, 4]},
        free_queue=[5, 6, 3],
        holders={1: 1, 2: 1, 4: 1},
    )
    bench.free(second)
    bench.check("With B the last holder goes.", "who is left?", free_queue=[5, 6, 3, 4, 2, 1], tables={}, holders={})


def test_usage_is_the_share_of_held_blocks(phase2: ModuleType) -> None:
    bench = ManagerBench(phase2, 8)
    first, second = make_request("A", 16), make_request("B", 24)
    for request, num_new, hits, usage in (
        (None, 0, [], 0.0),
        (first, 13, [], 0.5),
        (second, 8, [1, 2], 0.75),
        (second, 8, [], 1.0),
    ):
        if request is not None:
            bench.allocate(request, num_new, hits=hits)
        compare(
            "usage is the share of the usable blocks that somebody holds: a shared block once, the null block never.",
            before=bench.story,
            expected={"usage": usage},
            yours={"usage": round(float(bench.kv.usage), 6)},
            hint="8 blocks can be held. How many are?",
        )


@pytest.mark.parametrize(
    ("num_computed", "uncached"),
    [(0, [1, 2, 3]), (3, [1, 2, 3]), (4, [2, 3]), (7, [2, 3]), (8, [3]), (11, [3]), (12, [])],
)
def test_blocks_that_were_never_computed_are_uncached(
    phase2: ModuleType, num_computed: int, uncached: list[int]
) -> None:
    bench = ManagerBench(phase2, 5)
    request = make_request("A", 12)
    bench.allocate(request, 12, advance=False)
    request.num_computed_tokens = num_computed
    bench.cache.take_calls()
    bench.free(request)
    bench.check(
        "Full blocks enter the cache when they are allocated. Those that were not computed to their end by the time "
        "the request is freed hold nothing true: they are uncached. The others stay in the cache.",
        "how many blocks do the computed tokens fill?",
        cache_calls=[f"drop_uncomputed({uncached})"] if uncached else [],
        free_queue=[4, 5, 3, 2, 1],
    )


def test_looking_takes_nothing(phase2: ModuleType) -> None:
    bench = ManagerBench(phase2, 4)
    bench.allocate(make_request("A", 5), 5)
    for _ in range(2):
        bench.check(
            "free_block_ids and ref_counts may be asked as often as you like.",
            "do you take blocks out of the queue to list them?",
            tables={"A": [1, 2]},
            free_queue=[3, 4],
            holders={1: 1, 2: 1},
            num_free=2,
        )


@pytest.mark.parametrize("seed", SEEDS)
def test_manager_agrees_with_a_slow_model(phase2: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    fail_with_smallest([_manager_differs(phase2, rng, with_free=True) for _ in range(NUM_STATES)])
