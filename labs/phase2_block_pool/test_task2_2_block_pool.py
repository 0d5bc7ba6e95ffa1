"""Graded tests of task 2.2."""

import random
from types import ModuleType

import pytest

from course.labtest.cost import check_constant_work
from course.labtest.expect import alone, difference_report, expect_equal, fail_with_smallest
from course.labtest.phase2.cases import NUM_STATES, SEEDS
from course.labtest.phase2.queue_harness import PoolHarness, check_value_error
from course.labtest.phase2.work import pool_call, work_on_blocks


def test_a_new_pool_hands_out_from_block_1(phase2: ModuleType) -> None:
    harness = PoolHarness(phase2, 6)
    harness.check_handed_out("No block is requested, none is handed out.", "what runs 0 times?", 0, [])
    for num_blocks, block_ids in ((2, [1, 2]), (3, [3, 4, 5])):
        harness.check_handed_out(
            "A new pool hands out its blocks in the order of their ids. Block 0 is the null block and never handed "
            "out. Each block that is handed out is evicted from the prefix cache.",
            "which blocks are in the free queue before this call, front first, and which does the call take?",
            num_blocks,
            block_ids,
        )


def test_freed_blocks_go_to_the_back_in_the_order_given(phase2: ModuleType) -> None:
    harness = PoolHarness(phase2, 7)
    harness.get_new_blocks(4)
    harness.free_blocks([3, 1])
    harness.free_blocks([4])
    harness.check_handed_out(
        "Freed blocks go to the back of the free queue, in the order in which they were freed. The block that has "
        "been free longest is handed out first.",
        "write down the free queue after each call: which blocks stand in it, and where does a freed one go?",
        5,
        [5, 6, 3, 1, 4],
    )


def test_a_shared_block_is_free_when_its_last_holder_frees_it(phase2: ModuleType) -> None:
    harness = PoolHarness(phase2, 5)
    harness.get_new_blocks(2)
    harness.touch(1, 1)
    harness.free_blocks([1, 2])
    harness.check_handed_out("A block with a holder is not handed out.", "which are free, front first?", 3, [3, 4, 2])
    harness.free_blocks([1])
    harness.free_blocks([3, 1])
    harness.check_handed_out("The last holder frees the block.", "how many hold 1? Which are free?", 2, [3, 1])


def test_a_block_listed_twice_loses_two_holders(phase2: ModuleType) -> None:
    harness = PoolHarness(phase2, 4)
    harness.get_new_blocks(2)
    harness.touch(1)
    harness.free_blocks([1, 2, 1])
    harness.check_handed_out(
        "Every entry of the list takes one holder off its block; it goes to the back when the last one is off.",
        "at which of the three entries does block 1 become free, and where in the queue does it go?",
        3,
        [3, 2, 1],
    )


@pytest.mark.parametrize("freed_again", [[1], [2], [1, 2], [2, 1]], ids=str)
def test_a_second_free_does_not_queue_a_block_twice(phase2: ModuleType, freed_again: list[int]) -> None:
    harness = PoolHarness(phase2, 5)
    harness.get_new_blocks(3)
    harness.free_blocks([1, 2])
    rule = "A block without a holder is in the free queue already. Freeing it again is an error (ValueError), and must "
    rule += "not queue it a second time: two requests would get the same block."
    hint = "how do you notice that a block has no holder left?"
    check_value_error(lambda: harness.free_blocks(freed_again), rule, harness.history, hint)
    hint = "which blocks are free after the call that raises, front first, and how often does each stand in the queue?"
    harness.check_handed_out(rule, hint, 3, [4, 1, 2])
    harness.free_blocks([4])
    harness.check_handed_out(rule, hint, 1, [4])


def test_touch_takes_a_free_block_out_of_the_queue(phase2: ModuleType) -> None:
    harness = PoolHarness(phase2, 7)
    harness.touch(3, 1, 6)
    expect_equal(
        {"cache calls": harness.cache.take_calls()},
        {"cache calls": []},
        rule="A block that is touched keeps its content: a request wants to reuse it. Nothing is evicted.",
        situation=harness.history,
        hint="when is the content of a block forgotten: when it leaves the free queue, or when it is handed out?",
    )
    harness.check_handed_out(
        "A free block that is touched has a holder: it leaves the free queue, from any position.",
        "which blocks have a holder now, and which are in line to be handed out, front first?",
        3,
        [2, 4, 5],
    )
    harness.free_blocks([6, 3])
    harness.check_handed_out("When it is freed it goes to the back.", "where does a freed block go?", 2, [6, 3])


def test_touch_adds_one_holder_each_time(phase2: ModuleType) -> None:
    harness = PoolHarness(phase2, 4)
    harness.touch(2, 2, 2)
    harness.free_blocks([2])
    harness.free_blocks([2])
    harness.check_handed_out("Three holders, two frees: one is left.", "how many hold 2? Which are free?", 2, [1, 3])
    harness.free_blocks([2])
    harness.check_handed_out("Three holders, three frees: it is free.", "how many hold 2? Which are free?", 1, [2])


def test_tens_of_thousands_may_hold_a_block(phase2: ModuleType) -> None:
    harness = PoolHarness(phase2, 4)
    harness.history.append("touch(2), 70,000 times, then free_blocks([2]), 69,999 times")
    for _ in range(70_000):
        harness.pool.touch(2)
    harness.pool.free_blocks([2] * 69_999)
    harness.check_handed_out(
        "One holder is left, however many there were.",
        "what is your count for block 2, and is it in the queue?",
        2,
        [1, 3],
    )
    harness.free_blocks([2])
    harness.check_handed_out(
        "The last holder frees the block.", "what is your count for block 2, and is it in the queue?", 1, [2]
    )


def test_freeing_evicts_nothing(phase2: ModuleType) -> None:
    harness = PoolHarness(phase2, 4)
    block_ids = harness.get_new_blocks(2)
    harness.cache.take_calls()
    harness.free_blocks(block_ids)
    expect_equal(
        {"cache calls": harness.cache.take_calls()},
        {"cache calls": []},
        rule="A freed block keeps its content until it is handed out: a request with the same prefix can still use it.",
        situation=harness.history,
        hint="in which method does the prefix cache forget a block?",
    )


@pytest.mark.parametrize(
    "call", ["touch of a free block", "touch of a held block", "get_new_blocks(1)", "free_blocks of one block"]
)
def test_a_large_pool_costs_no_more_than_a_small_one(phase2: ModuleType, call: str) -> None:
    check_constant_work(
        work_on_blocks(phase2, pool_call(phase2, call)),
        call,
        "free blocks",
        "Each method of the pool takes constant time per block, however many blocks are free.",
        "which of your lines goes through all free blocks? What does a block itself tell you?",
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_pool_agrees_with_plain_lists(phase2: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    fail_with_smallest([_pool_differs(phase2, rng, many) for many in (*[1] * NUM_STATES, 30)])


def _pool_differs(phase2: ModuleType, rng: random.Random, many: int) -> str:
    num_gpu_blocks = rng.randint(2, 9) * many
    harness = PoolHarness(phase2, num_gpu_blocks)
    free, held = list(range(1, num_gpu_blocks)), list[int]()  # a block with two holders is in `held` twice
    for turn in range(rng.randint(3, 12) * many, -1, -1):
        if rng.random() < 0.05:
            harness.use_another()
        act = rng.choice(("get", "touch", "free")) if turn else "get"
        expected: list[int] = []
        yours: list[int] = []
        if act == "get":
            expected = free[: rng.randint(0, min(len(free), 9))] if turn else list(free)
            free = free[len(expected) :]
            held += expected
            yours = harness.get_new_blocks(len(expected))
        elif act == "touch":
            block_id = rng.choice((rng.randint(1, num_gpu_blocks - 1), *held[:2]))
            free = [other for other in free if other != block_id]
            held.append(block_id)
            harness.touch(block_id)
        elif held:
            freed = rng.sample(held, rng.randint(1, min(len(held), 9)))
            for block_id in freed:
                held.remove(block_id)
                free += [block_id] * (block_id not in held)
            harness.free_blocks(freed)
        seen = {"handed out": yours, "cache calls": harness.cache.take_calls()}
        right = {"handed out": expected, "cache calls": [f"evict({block_id})" for block_id in expected]}
        report = difference_report(
            seen,
            right,
            rule="After these calls your pool hands out, or evicts, other blocks than plain lists do.",
            situation=harness.history,
            hint=alone(seen, right, right)
            or "count the holders of each block line by line. In which order did the free ones become free?",
        )
        if report:
            return report
    return ""
