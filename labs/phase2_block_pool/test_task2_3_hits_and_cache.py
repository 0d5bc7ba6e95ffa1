"""Graded tests of task 2.3: what an admission does with hit blocks, and what the prefix cache is given."""

import random
from types import ModuleType

import pytest

from course.labtest.expect import expect_equal, fail_with_smallest
from course.labtest.phase2.cases import SEEDS, managers_differ
from course.labtest.phase2.manager_harness import ManagerHarness
from course.labtest.recorded import Answers
from course.labtest.support import make_request

FITS_TOGETHER = "All or none: the new blocks and the free hit blocks must fit in the free queue together."


def test_a_refused_request_is_admitted_later_with_its_hit(phase2: ModuleType) -> None:
    harness = ManagerHarness(phase2, 5)
    request = make_request("A", 40)
    harness.allocate(request, 13, hits=[2, 3])
    harness.check(
        FITS_TOGETHER,
        "13 new tokens need 4 blocks, 2 hit blocks are free, and 5 blocks lie in the free queue. How many would leave "
        "it?",
        returned=None,
        num_free=5,
    )
    harness.allocate(request, 9, hits=[2, 3])
    harness.check(
        "A request that was refused at its admission is admitted later, hit blocks included.",
        "2 of A's blocks are hit. How many new ones does it need, and how does your code tell that A is admitted?",
        returned=[1, 4, 5],
        tables={"A": [2, 3, 1, 4, 5]},
        num_free=0,
        cache_calls=["pin(A, [2, 3])", "evict(1)", "evict(4)", "evict(5)", "cache_full_blocks(A, [2, 3, 1, 4], 2, 4)"],
    )


def test_hit_blocks_are_pinned_before_new_ones_are_taken(phase2: ModuleType) -> None:
    harness = ManagerHarness(phase2, 6)
    harness.allocate(make_request("A", 15), 7, hits=[1, 2])
    harness.check(
        "First the hit blocks are pinned, which takes them out of the free queue; then new ones are handed out.",
        "15 tokens are 4 blocks. How many of them are hit, and how many are new?",
        returned=[3, 4],
        tables={"A": [1, 2, 3, 4]},
        num_free=2,
        cache_calls=["pin(A, [1, 2])", "evict(3)", "evict(4)", "cache_full_blocks(A, [1, 2, 3], 2, 3)"],
    )


@pytest.mark.parametrize(("num_new", "returned"), [(8, [2, 4]), (9, None)])
def test_free_hit_blocks_count_as_needed(phase2: ModuleType, num_new: int, returned: list[int] | None) -> None:
    harness = ManagerHarness(phase2, 4)
    harness.allocate(make_request("A", 30), num_new, hits=[1, 3])
    harness.check(
        "A hit block without a holder leaves the free queue too: it counts as needed memory, beside the new blocks.",
        "4 blocks are free, 2 of them are the hit. How many new ones can there be, and which?",
        returned=returned,
        num_free=4 if returned is None else 0,
    )


def test_held_hit_blocks_cost_nothing(phase2: ModuleType) -> None:
    harness = ManagerHarness(phase2, 4)
    harness.allocate(make_request("A", 9), 9)
    harness.allocate(make_request("B", 12), 4, hits=[1, 2])
    harness.check(
        "A hit block that another request holds is shared: it needs no free block.",
        "how many blocks do B's 12 tokens need, how many of them are hit, and how many of the hit ones are free?",
        returned=[4],
        tables={"A": [1, 2, 3], "B": [1, 2, 4]},
        num_free=0,
    )


def test_of_a_mixed_hit_only_the_free_part_counts(phase2: ModuleType) -> None:
    harness = ManagerHarness(phase2, 5)
    harness.allocate(make_request("A", 4), 4)
    harness.allocate(make_request("B", 30), 13, hits=[1, 2])
    harness.check(
        FITS_TOGETHER,
        "13 new tokens need 4 blocks, and 4 blocks lie in the free queue. Which hit block would leave it, too?",
        returned=None,
        num_free=4,
    )
    harness.allocate(make_request("B", 30), 12, hits=[1, 2])
    harness.check(
        "Of the hit only block 2 is free: 1 and 3 new ones fit in 4.",
        "how many new blocks do 12 tokens after the hit need, and which of the hit blocks leave the free queue?",
        returned=[3, 4, 5],
        tables={"A": [1], "B": [1, 2, 3, 4, 5]},
        num_free=0,
    )


@pytest.mark.parametrize("num_tokens", [33, 34, 47, 48, 49])
def test_a_hit_at_block_size_16(phase2: ModuleType, num_tokens: int) -> None:
    harness = ManagerHarness(phase2, 6, block_size=16)
    harness.allocate(make_request("A", num_tokens), num_tokens - 32, hits=[2, 5])
    new = [1] if num_tokens <= 48 else [1, 3]
    calls = ["pin(A, [2, 5])", *(f"evict({block_id})" for block_id in new)]
    if num_tokens >= 48:
        calls.append("cache_full_blocks(A, [2, 5, 1], 2, 3)")
    harness.check(
        "The hit blocks are computed: the new tokens come after them.",
        f"2 blocks of 16 are hit and {num_tokens - 32} tokens are new: how many blocks is that, and which become full?",
        returned=new,
        tables={"A": [2, 5, *new]},
        cache_calls=calls,
    )


def test_every_admission_is_pinned_with_and_without_a_hit(phase2: ModuleType) -> None:
    harness = ManagerHarness(phase2, 6)
    request = make_request("A", 3)
    harness.allocate(request, 2)
    harness.check(
        "A request that is admitted is pinned, with a hit or without: the prefix cache counts both.",
        "is a request without a hit admitted?",
        cache_calls=["pin(A, [])", "evict(1)"],
    )
    harness.allocate(request, 1)
    harness.check(
        "A request that has a table is not admitted again.",
        "how many blocks do 3 tokens need, how many does A hold, and is A being admitted?",
        returned=[],
        cache_calls=[],
    )


def test_full_blocks_enter_the_cache_when_they_are_allocated(phase2: ModuleType) -> None:
    harness = ManagerHarness(phase2, 8)
    request = make_request("A", 20)
    for num_new, calls in (
        (3, ["pin(A, [])", "evict(1)"]),
        (1, ["cache_full_blocks(A, [1], 0, 1)"]),
        (9, ["evict(2)", "evict(3)", "evict(4)", "cache_full_blocks(A, [1, 2, 3], 1, 3)"]),
        (2, []),
    ):
        harness.allocate(request, num_new)
        harness.check(
            "The blocks that become full in this call enter the prefix cache now, and only these: from the number of "
            "full blocks before to the number after. No block became full: no call.",
            "how many blocks were full before the new tokens, and how many are full with them?",
            cache_calls=calls,
        )


@pytest.mark.parametrize(
    ("block_size", "num_tokens", "num_full"), [(4, 3, 0), (4, 4, 1), (4, 5, 1), (16, 15, 0), (16, 16, 1), (16, 17, 1)]
)
def test_a_block_is_full_with_its_last_token(
    phase2: ModuleType, block_size: int, num_tokens: int, num_full: int
) -> None:
    harness = ManagerHarness(phase2, 6, block_size)
    harness.allocate(make_request("A", num_tokens), num_tokens)
    commits = [call for call in harness.cache.take_calls() if call.startswith("cache_full_blocks")]
    expect_equal(
        commits,
        ["cache_full_blocks(A, [1], 0, 1)"] if num_full else [],
        rule="A block enters the prefix cache when its last slot gets a known token, not before and not later.",
        situation=[*harness.history, "compared: the calls of cache_full_blocks"],
        hint=f"which blocks of A's table are full to the last slot with {num_tokens} tokens, and which list is passed?",
    )


def test_tokens_that_are_not_known_yet_fill_no_block(phase2: ModuleType) -> None:
    harness = ManagerHarness(phase2, 8)
    request = make_request("A", 6)
    harness.allocate(request, 5)
    harness.cache.take_calls()
    harness.allocate(request, 4)
    harness.check(
        "Only tokens that the request has can fill a block of the cache: count up to num_tokens, not further.",
        "9 slots are planned, but A has 6 tokens. How many blocks must it hold, and how many of them may be cached?",
        returned=[3],
        cache_calls=["evict(3)"],
    )


def test_the_hit_is_what_the_prefix_cache_finds_now(phase2: ModuleType) -> None:
    harness = ManagerHarness(phase2, 6)
    request = make_request("A", 12)
    for found_by_cache in ([5, 2], [5], [3, 4]):
        harness.look(request, found_by_cache)
    harness.check("A look takes nothing.", "what does a look leave?", tables={}, num_free=6, cache_calls=[])


@pytest.mark.parametrize("seed", SEEDS)
def test_allocation_agrees_with_a_slow_model(phase2: ModuleType, answers: Answers, seed: int) -> None:
    fail_with_smallest(managers_differ(phase2, answers, random.Random(seed), with_free=False))
