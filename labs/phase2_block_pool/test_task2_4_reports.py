"""Graded tests of task 2.4: `usage`, `free_block_ids` and `ref_counts`."""

from types import ModuleType

from course.labtest.expect import expect_equal
from course.labtest.phase2.manager_harness import ManagerHarness
from course.labtest.support import make_request


def test_usage_is_the_share_of_held_blocks(phase2: ModuleType) -> None:
    harness = ManagerHarness(phase2, 8)
    first, second = make_request("A", 16), make_request("B", 24)
    for request, num_new, hits, usage in (
        (None, 0, [], 0.0),
        (first, 13, [], 0.5),
        (second, 8, [1, 2], 0.75),
        (second, 8, [], 1.0),
    ):
        if request is not None:
            harness.allocate(request, num_new, hits=hits)
        harness.check(
            "usage is held blocks over usable blocks: a shared block counts once, the null block never.",
            "8 blocks can be held. How many are, and what share is that, 0 to 1?",
            usage=usage,
        )


def test_reading_changes_nothing(phase2: ModuleType) -> None:
    harness = ManagerHarness(phase2, 4)
    harness.allocate(make_request("A", 5), 5)
    for _ in range(2):
        harness.check(
            "free_block_ids and ref_counts can be called any number of times.",
            "what do both read in your code, and do they change anything on the way?",
            tables={"A": [1, 2]},
            free_queue=[3, 4],
            holders={1: 1, 2: 1},
            num_free=2,
        )


def test_what_was_read_does_not_change_later(phase2: ModuleType) -> None:
    harness = ManagerHarness(phase2, 4)
    request = make_request("A", 9)
    harness.allocate(request, 5)
    counts, free = harness.kv.ref_counts(), harness.kv.free_block_ids()
    harness.allocate(request, 4)
    harness.holders(), harness.free_queue()
    expect_equal(
        {"ref_counts()": dict(counts), "free_block_ids()": [int(block_id) for block_id in free]},
        {"ref_counts()": {1: 1, 2: 1}, "free_block_ids()": [3, 4]},
        rule="ref_counts and free_block_ids return copies: they show the moment of the call.",
        situation=[*harness.history, "compared: what both returned before the last call, after one more call of each"],
        hint="what did each of the two return when it was called, what does it hold now, and where is it made?",
    )
