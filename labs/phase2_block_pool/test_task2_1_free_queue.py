"""Graded tests of task 2.1."""

import random
from types import ModuleType

import pytest

from course.labtest.cost import check_constant_work
from course.labtest.expect import alone, difference_report, expect_equal, fail_with_smallest
from course.labtest.phase2.cases import NUM_STATES, SEEDS
from course.labtest.phase2.queue_harness import FreeQueueHarness, check_value_error
from course.labtest.phase2.work import queue_call, work_on_blocks


@pytest.mark.parametrize("block_ids", [[], [4], [1, 2, 3], [7, 3, 5, 1], [*range(3000, 0, -1)]])
def test_a_new_queue_holds_the_given_blocks_in_order(phase2: ModuleType, block_ids: list[int]) -> None:
    harness = FreeQueueHarness(phase2, block_ids)
    harness.check(
        "A new queue holds the blocks that it is given, in their order, and counts them.",
        "which block is at the front, which at the back, and how many are there?",
        left=block_ids,
    )


def test_popleft_takes_from_the_front_until_the_queue_is_empty(phase2: ModuleType) -> None:
    harness = FreeQueueHarness(phase2, [7, 3, 5])
    for popped, left in ((7, [3, 5]), (3, [5]), (5, [])):
        harness.popleft()
        harness.check("popleft takes the block at the front.", "which block is first, and which then?", left, popped)


def test_append_puts_at_the_back_of_an_empty_queue_too(phase2: ModuleType) -> None:
    harness = FreeQueueHarness(phase2, [])
    for block_id, left in ((5, [5]), (2, [5, 2]), (9, [5, 2, 9])):
        harness.append(block_id)
        harness.check("append puts a block at the back.", "which links change when a block becomes the last?", left)
    harness.popleft()
    harness.check("A block that was appended can be popped.", "how does yours find the block at the front?", [2, 9], 5)


@pytest.mark.parametrize(("removed", "left"), [(1, [2, 3, 4]), (2, [1, 3, 4]), (3, [1, 2, 4]), (4, [1, 2, 3])])
def test_remove_takes_a_block_from_any_position(phase2: ModuleType, removed: int, left: list[int]) -> None:
    harness = FreeQueueHarness(phase2, [1, 2, 3, 4])
    harness.remove(removed)
    harness.check(
        "remove takes out a block at any position; the others keep their order.",
        "are both neighbours of the block linked to each other afterwards, at the two ends too?",
        left,
    )
    harness.append(8)
    harness.check("After a removal append works as before.", "what is linked at the back, and to what?", [*left, 8])
    harness.popleft()
    harness.check("After a removal popleft works as before.", "is the front still linked?", [*left[1:], 8], left[0])


def test_a_block_that_was_taken_out_can_be_appended_again(phase2: ModuleType) -> None:
    harness = FreeQueueHarness(phase2, [1, 2, 3])
    harness.remove(2)
    harness.append(2)
    harness.check(
        "A block that was removed may be appended again: at the back.", "which links has it after each call?", [1, 3, 2]
    )
    harness.popleft()
    harness.append(1)
    harness.check("A block that was popped may be appended again.", "which links has it after each call?", [3, 2, 1])
    harness.remove(2)
    harness.check("A block that was appended again can be removed again.", "which neighbours has it now?", [3, 1])


def test_removing_the_only_block_leaves_a_working_queue(phase2: ModuleType) -> None:
    harness = FreeQueueHarness(phase2, [6])
    harness.remove(6)
    harness.check("Removing the only block leaves an empty queue.", "where do both ends point now?", [])
    harness.append(6)
    harness.append(4)
    harness.check("An emptied queue works as before.", "where do both ends point now?", [6, 4])


@pytest.mark.parametrize("case", ["removed before", "popped before", "never in the queue"])
def test_removing_a_block_that_is_not_in_the_queue_is_an_error(phase2: ModuleType, case: str) -> None:
    harness = FreeQueueHarness(phase2, [1, 2, 3])
    block_id, left = {"removed before": (2, [1, 3]), "popped before": (1, [2, 3])}.get(case, (9, [1, 2, 3]))
    if case == "removed before":
        harness.remove(block_id)
    if case == "popped before":
        block_id = harness.popleft()
    check_value_error(
        lambda: harness.remove(block_id),
        "remove raises ValueError for a block that is not in the queue: a second removal is a bug that must show.",
        harness.history,
        "how can you tell from a block alone that it is not in the queue?",
    )
    harness.check("A removal that fails changes nothing.", "what is in your queue before it, and what after?", left)


@pytest.mark.parametrize("block_ids", [[], [5]], ids=["always empty", "emptied"])
def test_popleft_of_an_empty_queue_is_an_error(phase2: ModuleType, block_ids: list[int]) -> None:
    harness = FreeQueueHarness(phase2, block_ids)
    for _ in block_ids:
        harness.popleft()
    check_value_error(
        harness.popleft,
        "popleft of an empty queue raises ValueError.",
        harness.history,
        "what stands at the front when no block is free?",
    )
    harness.check("A popleft that fails changes nothing.", "what is in your queue before it, and what after?", [])
    harness.append(3)
    harness.check("The queue works on after the error.", "where do both ends point now?", [3])


def test_the_list_of_block_ids_is_a_copy(phase2: ModuleType) -> None:
    harness = FreeQueueHarness(phase2, [4, 6])
    first = harness.queue.block_ids()
    harness.append(2)
    expect_equal(
        [int(block_id) for block_id in first],
        [4, 6],
        rule="block_ids returns a new list: it does not change when the queue does.",
        situation=[*harness.history, "compared: what block_ids() returned before the append"],
        hint="which ids did block_ids() return when it was called, and which does the same list hold now?",
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_queue_agrees_with_a_plain_list(phase2: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    fail_with_smallest([_queue_differs(phase2, rng, many) for many in (*[1] * NUM_STATES, 30)])


def _queue_differs(phase2: ModuleType, rng: random.Random, many: int) -> str:
    free, out = rng.sample(range(1, 20 * many), rng.randint(0, 6) * many), rng.sample(range(5000, 5010), 3)
    harness = FreeQueueHarness(phase2, free)
    for _ in range(rng.randint(4, 14) * many):
        if rng.random() < 0.05:
            harness.use_another()
        act = rng.choice(("append", "remove", "popleft"))
        popped: object = None
        expected: object = None
        if act == "append" and out:
            harness.append(out[0])
            free.append(out.pop(0))
        elif act == "remove" and free:
            block_id = rng.choice(free)
            harness.remove(block_id)
            free.remove(block_id)
            out.append(block_id)
        elif act == "popleft" and free:
            popped, expected = harness.popleft(), free.pop(0)
            out.append(expected)
        yours = {"popped": popped, **harness.state()}
        right = {"popped": expected, "block_ids()": free, "num_free_blocks": len(free)}
        report = difference_report(
            yours,
            right,
            rule="After these calls your queue and a plain list differ.",
            situation=harness.history,
            hint=alone(yours, right, ("popped", "num_free_blocks"))
            or "draw the blocks and their links before and after the last call. What does your code change or read?",
        )
        if report:
            return report
    return ""


@pytest.mark.parametrize("call", ["remove", "append", "popleft"])
def test_a_long_queue_costs_no_more_than_a_short_one(phase2: ModuleType, call: str) -> None:
    check_constant_work(
        work_on_blocks(phase2, queue_call(phase2, call)),
        call,
        "free blocks",
        "append, remove and popleft take constant time: the length of the queue does not matter.",
        "a block knows its neighbours, the queue its length. Which line of yours goes through the blocks, or copies?",
    )
