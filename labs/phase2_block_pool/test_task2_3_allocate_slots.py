"""Graded tests of task 2.3: how many blocks a request gets."""

from types import ModuleType

import pytest

from course.labtest.cost import check_constant_work
from course.labtest.expect import expect_equal
from course.labtest.phase2.manager_harness import ManagerHarness
from course.labtest.phase2.work import ALLOCATIONS, manager_call, work_on_blocks
from course.labtest.support import make_request

SUM_RULE = "Blocks needed = (computed + new tokens) / block_size, rounded up. Taken: those minus the blocks held."
HOW_MANY = "how many tokens has A with the new ones computed, how many blocks is that, and how many does A hold?"


def test_a_new_manager_reports_its_size(phase2: ModuleType) -> None:
    kv = ManagerHarness(phase2, num_usable_blocks=9, block_size=16).kv
    expect_equal(
        {
            "block_size": kv.block_size,
            "num_usable_blocks": kv.num_usable_blocks,
            "num_free_blocks": kv.num_free_blocks,
            "block_ids('A')": list(kv.block_ids("A")),
        },
        {"block_size": 16, "num_usable_blocks": 9, "num_free_blocks": 9, "block_ids('A')": []},
        rule="The manager reports its block size and how many blocks requests can hold; the null block does not count.",
        situation="PagedKVCacheManager(num_gpu_blocks=10, block_size=16)",
        hint="which of these are given to you, and which does your code count? Of 10 blocks, how many can be held?",
    )


@pytest.mark.parametrize(
    ("block_size", "num_tokens", "num_blocks"),
    [(4, 1, 1), (4, 3, 1), (4, 4, 1), (4, 5, 2), (4, 8, 2), (4, 9, 3), (16, 15, 1), (16, 16, 1), (16, 17, 2)],
)
def test_a_prompt_takes_its_blocks_rounded_up(
    phase2: ModuleType, block_size: int, num_tokens: int, num_blocks: int
) -> None:
    harness = ManagerHarness(phase2, 6, block_size)
    harness.allocate(make_request("A", num_tokens), num_tokens)
    blocks = list(range(1, num_blocks + 1))
    harness.check(
        "A new request gets tokens / block_size blocks, rounded up, from the front of the free queue.",
        f"how many blocks of {block_size} does a prompt of length {num_tokens} fill or begin?",
        returned=blocks,
        tables={"A": blocks},
        num_free=6 - num_blocks,
    )


@pytest.mark.parametrize("block_size", [4, 16])
def test_a_decoded_token_takes_a_block_only_when_the_last_one_is_full(phase2: ModuleType, block_size: int) -> None:
    harness = ManagerHarness(phase2, 6, block_size)
    request = make_request("A", block_size - 1)
    harness.allocate(request, block_size - 1)
    for num_computed in (block_size - 1, block_size, block_size + 1, 2 * block_size - 1, 2 * block_size):
        while request.num_computed_tokens < num_computed:
            request.all_token_ids.append(7)
            harness.allocate(request, 1)
        request.all_token_ids.append(7)
        harness.allocate(request, 1)
        num_blocks, is_new = num_computed // block_size + 1, num_computed % block_size == 0
        del harness.history[3:-1]
        harness.check(
            "One more token takes a new block only if the last block is full. Otherwise the answer is [], a success.",
            f"{num_computed} tokens are computed and 1 is new. How many blocks is that, and how many does A hold?",
            returned=[num_blocks] if is_new else [],
            tables={"A": list(range(1, num_blocks + 1))},
            num_free=6 - num_blocks,
        )


def test_a_hundred_decoded_tokens(phase2: ModuleType) -> None:
    harness = ManagerHarness(phase2, 200, block_size=16)
    request = make_request("A", 1)
    for _ in range(100):
        harness.allocate(request, 1)
        request.all_token_ids.append(7)
    del harness.history[4:-1]
    harness.history.insert(4, "... and so on, 100 tokens one by one")
    harness.check("100 tokens, one by one, fill 7 blocks of 16.", "how many of 200 are left then?", num_free=193)


def test_chunks_of_a_prompt_share_a_block(phase2: ModuleType) -> None:
    harness = ManagerHarness(phase2, 6)
    request = make_request("A", 14)
    for num_new, blocks, num_free in ((6, [1, 2], 4), (1, [], 4), (7, [3, 4], 2)):
        harness.allocate(request, num_new)
        harness.check(SUM_RULE, HOW_MANY, returned=blocks, num_free=num_free)


def test_requests_take_turns(phase2: ModuleType) -> None:
    harness = ManagerHarness(phase2, 6)
    first, second = make_request("A", 8), make_request("B", 2)
    harness.allocate(first, 5)
    harness.allocate(second, 2)
    harness.allocate(first, 3)
    harness.check("The last block of A has room for 3 tokens.", "8 tokens: how many blocks?", returned=[], num_free=3)
    harness.allocate(first, 2)
    harness.check(
        "Each request has its own table; its blocks need not lie side by side.",
        "how many blocks do A's 10 tokens need, and which block is at the front of the free queue then?",
        returned=[4],
        tables={"A": [1, 2, 4], "B": [3]},
        num_free=2,
    )


def test_lookahead_needs_slots_and_fills_nothing(phase2: ModuleType) -> None:
    harness = ManagerHarness(phase2, 6)
    request = make_request("A", 12)
    harness.allocate(request, 3, lookahead=2)
    harness.check(
        "Lookahead tokens need slots like new ones, but they fill no block of the cache.",
        "3 new and 2 lookahead tokens: how many slots, and how many full blocks that may be cached?",
        returned=[1, 2],
        cache_calls=["pin(A, [])", "evict(1)", "evict(2)"],
    )
    harness.allocate(request, 2)
    harness.check(
        "Slots that were taken for lookahead are used later.",
        "how many blocks does A hold, and how many do 5 tokens need?",
        returned=[],
        num_free=4,
        cache_calls=["cache_full_blocks(A, [1], 0, 1)"],
    )


def test_holding_more_than_needed_is_fine(phase2: ModuleType) -> None:
    harness = ManagerHarness(phase2, 4)
    request = make_request("A", 30)
    harness.allocate(request, 2, lookahead=13)
    harness.allocate(request, 1)
    harness.check(
        "A request that holds more blocks than it needs takes none and gives none back. That is a success: [].",
        "how many blocks does A hold after the first call, how many do 3 tokens need, and what does your code do with "
        "the difference?",
        returned=[],
        tables={"A": [1, 2, 3, 4]},
        num_free=0,
    )


def test_the_answer_belongs_to_the_caller(phase2: ModuleType) -> None:
    harness = ManagerHarness(phase2, 6)
    request = make_request("A", 30)
    harness.allocate(request, 6)
    answer = harness.raw_answer
    harness.allocate(request, 4)
    expect_equal(
        [int(block_id) for block_id in answer],
        [1, 2],
        rule="allocate_slots returns a list of its own, not the block table: it does not grow with the request.",
        situation=[*harness.history, "compared: the list that the first call returned"],
        hint="which ids did the first call return, which does that list hold now, and which list is the table?",
    )


@pytest.mark.parametrize("call", ALLOCATIONS)
def test_a_large_memory_costs_no_more_than_a_small_one(phase2: ModuleType, call: str) -> None:
    check_constant_work(
        work_on_blocks(phase2, manager_call(phase2, ALLOCATIONS[call])),
        call,
        "free blocks",
        "The scheduler asks for memory, and for num_free_blocks, for every request in every step: neither costs more "
        "when more blocks are free.",
        "which of your lines goes through all blocks, or copies a list of them? Your queue keeps a count: do you read "
        "it?",
    )


def test_other_requests_cost_an_allocation_nothing(phase2: ModuleType) -> None:
    call = "allocate_slots with one new block"
    check_constant_work(
        work_on_blocks(phase2, manager_call(phase2, ALLOCATIONS[call], lambda length: length)),
        call,
        "other requests",
        "An allocation looks at its own request alone: it costs no more when more requests hold blocks.",
        "which of your lines looks at, or copies, more than this request's own blocks?",
    )
