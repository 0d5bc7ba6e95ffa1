"""Graded tests of task 2.4: `free`."""

import random
from types import ModuleType

import pytest

from course.labtest.cost import check_constant_work, check_keeps_nothing
from course.labtest.expect import fail_with_smallest
from course.labtest.phase2.cases import SEEDS, managers_differ
from course.labtest.phase2.manager_harness import ManagerHarness
from course.labtest.phase2.work import OTHER_CALLS, manager_call, work_on_blocks
from course.labtest.recorded import Answers
from course.labtest.support import make_request
from mini_vllm.core.request import Request


def test_blocks_come_back_last_one_first(phase2: ModuleType) -> None:
    harness = ManagerHarness(phase2, 6)
    first, second = make_request("A", 12), make_request("B", 5)
    harness.allocate(first, 12)
    harness.allocate(second, 5)
    harness.free(first)
    harness.check(
        "A freed request gives its blocks back tail first, to the back of the free queue. So the front of a prompt, "
        "which other requests may share, stays longest.",
        "which blocks come back, and which of them should be handed out again first?",
        tables={"B": [4, 5]},
        free_queue=[6, 3, 2, 1],
        num_free=4,
        holders={4: 1, 5: 1},
    )
    harness.free(second)
    harness.check(
        "All blocks are free again.",
        "which come back now, and where to?",
        free_queue=[6, 3, 2, 1, 5, 4],
        tables={},
        holders={},
    )


def test_freed_blocks_are_handed_out_last(phase2: ModuleType) -> None:
    harness = ManagerHarness(phase2, 5)
    first, second = make_request("A", 8), make_request("B", 16)
    harness.allocate(first, 8)
    harness.free(first)
    harness.allocate(second, 16)
    harness.check(
        "The free queue is the order in which blocks are handed out, front first.",
        "which block has been free longest?",
        returned=[3, 4, 5, 2],
        free_queue=[1],
        holders={2: 1, 3: 1, 4: 1, 5: 1},
    )


def test_a_request_that_holds_nothing_can_be_freed(phase2: ModuleType) -> None:
    harness = ManagerHarness(phase2, 4)
    request = make_request("A", 6)
    harness.free(make_request("never seen", 6))
    harness.allocate(request, 6)
    harness.free(request)
    harness.free(request)
    harness.check(
        "A request without blocks can be freed: nothing happens.",
        "which blocks come back at the first free of A, in which order, and what does the second one find?",
        tables={},
        free_queue=[3, 4, 2, 1],
        num_free=4,
        holders={},
    )


def test_a_freed_request_is_admitted_like_a_new_one(phase2: ModuleType) -> None:
    harness = ManagerHarness(phase2, 5)
    request = make_request("A", 10)
    harness.allocate(request, 10)
    harness.free(request)
    request.num_computed_tokens = 0
    harness.cache.take_calls()
    harness.allocate(request, 6, hits=[1])
    harness.check(
        "A request that was freed has no table. Its next allocation is an admission, with a hit as for a new one.",
        "has A a table after free? How many blocks does it need now, which are hit, and which are new?",
        returned=[4, 5],
        tables={"A": [1, 4, 5]},
        free_queue=[3, 2],
        holders={1: 1, 4: 1, 5: 1},
        cache_calls=["pin(A, [1])", "evict(4)", "evict(5)", "cache_full_blocks(A, [1, 4], 1, 2)"],
    )


def test_a_refused_request_succeeds_when_blocks_are_free_again(phase2: ModuleType) -> None:
    harness = ManagerHarness(phase2, 4)
    first, second = make_request("A", 12), make_request("B", 8)
    harness.allocate(first, 12)
    for _ in range(2):
        harness.allocate(second, 8)
        harness.check("2 blocks are needed and 1 is free.", "how many are free?", returned=None, num_free=1)
    harness.free(first)
    harness.allocate(second, 8)
    harness.check(
        "The answer depends on the memory now: the same call that was refused succeeds when blocks are free.",
        "which blocks are free after A is freed, front first, and how many does B take?",
        returned=[4, 3],
        tables={"B": [4, 3]},
    )


def test_shared_blocks_stay_until_their_last_holder_frees_them(phase2: ModuleType) -> None:
    harness = ManagerHarness(phase2, 6)
    first, second = make_request("A", 12), make_request("B", 12)
    harness.allocate(first, 10)
    harness.allocate(second, 3, hits=[1, 2])
    harness.check(
        "A block counts once for each table that it stands in; blocks without a holder are not listed.",
        "which blocks stand in A's table, which in B's, and which in both?",
        free_queue=[5, 6],
        holders={1: 2, 2: 2, 3: 1, 4: 1},
    )
    harness.free(first)
    harness.check(
        "Blocks that B shares are not free when A is.",
        "how many holders has each of A's blocks left, and where do those without one go?",
        tables={"B": [1, 2, 4]},
        free_queue=[5, 6, 3],
        holders={1: 1, 2: 1, 4: 1},
    )
    harness.free(second)
    harness.check(
        "B was the last holder.",
        "which come back now, and where to?",
        free_queue=[5, 6, 3, 4, 2, 1],
        tables={},
        holders={},
    )


def test_the_end_of_the_table_goes_first_whatever_its_ids(phase2: ModuleType) -> None:
    harness = ManagerHarness(phase2, 6)
    request = make_request("A", 12)
    harness.allocate(request, 3, hits=[4, 2])
    harness.free(request)
    harness.check(
        "The order of the block table decides which block is freed first, not the ids: the table follows the text.",
        "is A's table [4, 2, 1], and which of the three holds the end of A's text?",
        free_queue=[3, 5, 6, 1, 2, 4],
        tables={},
    )


@pytest.mark.parametrize(
    ("num_computed", "dropped"),
    [(0, [1, 2, 3]), (3, [1, 2, 3]), (4, [2, 3]), (7, [2, 3]), (8, [3]), (11, [3]), (12, [])],
)
def test_blocks_that_were_not_computed_leave_the_cache(
    phase2: ModuleType, num_computed: int, dropped: list[int]
) -> None:
    harness = ManagerHarness(phase2, 5)
    request = make_request("A", 12)
    harness.allocate(request, 12, advance=False)
    request.num_computed_tokens = num_computed
    harness.cache.take_calls()
    harness.free(request)
    harness.check(
        "Full blocks enter the cache when they are allocated. A block that was not computed to its end when its "
        "request is freed has wrong K and V: drop_uncomputed takes it out. The others stay in the cache. What counts "
        "is the argument num_computed_tokens; the request's own counter may be another number.",
        f"which blocks of A's table do {num_computed} tokens fill, and which number counts the computed ones?",
        cache_calls=[f"drop_uncomputed({dropped})"] if dropped else [],
        free_queue=[4, 5, 3, 2, 1],
    )


@pytest.mark.parametrize("call", OTHER_CALLS)
def test_a_large_memory_costs_no_more_than_a_small_one(phase2: ModuleType, call: str) -> None:
    check_constant_work(
        work_on_blocks(phase2, manager_call(phase2, OTHER_CALLS[call])),
        call,
        "free blocks",
        "What a call costs depends on the blocks of its request, and not on how many others are free.",
        "which of your lines goes through all blocks, or copies a list of them?",
    )


def test_a_freed_request_leaves_nothing_behind(phase2: ModuleType) -> None:
    kv = ManagerHarness(phase2, 9).kv

    def use(name: str) -> Request:
        request = make_request(name, 9)
        kv.get_computed_blocks(request)
        kv.allocate_slots(request, 5)
        kv.free(request, 5)
        return request

    check_keeps_nothing(
        phase2,
        use,
        kv,
        what="requests were looked up, got 2 blocks, and were freed",
        rule="A freed request has no table, not even an empty one, and nothing else of it is remembered: a server "
        "would never forget it.",
        hint="which of your dicts, lists and sets still has the id, the request or its blocks?",
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_manager_agrees_with_a_slow_model(phase2: ModuleType, answers: Answers, seed: int) -> None:
    fail_with_smallest(managers_differ(phase2, answers, random.Random(seed), with_free=True))
