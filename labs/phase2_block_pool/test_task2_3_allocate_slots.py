"""Graded tests of task 2.3."""

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


def test_a_new_manager_says_what_it_has(phase2: ModuleType) -> None:
    bench = ManagerBench(phase2, num_usable_blocks=9, block_size=16)
    kv = bench.kv
    compare(
        "The manager knows its block size and how many blocks requests can hold. The null block is not one of them.",
        before=["PagedKVCacheManager(num_gpu_blocks=10, block_size=16)"],
        expected={"block_size": 16, "num_usable_blocks": 9, "num_free_blocks": 9, "block_ids('A')": []},
        yours={
            "block_size": kv.block_size,
            "num_usable_blocks": kv.num_usable_blocks,
            "num_free_blocks": kv.num_free_blocks,
            "block_ids('A')": list(kv.block_ids("A")),
        },
        hint="of 10 blocks, how many can a request ever get?",
    )


@pytest.mark.parametrize(
    ("num_tokens", "blocks"), [(1, [1]), (3, [1]), (4, [1]), (5, [1, 2]), (8, [1, 2]), (9, [1, 2, 3])]
)
def test_a_prompt_takes_its_blocks_rounded_up(phase2: ModuleType, num_tokens: int, blocks: list[int]) -> None:
    bench = ManagerBench(phase2, 6)
    bench.allocate(make_request("A", num_tokens), num_tokens)
    bench.check(
        "A new request gets tokens / block_size blocks, rounded up, from the front of the free queue.",
        "how many blocks of 4 tokens do that many tokens fill or begin?",
        returned=blocks,
        tables={"A": blocks},
        num_free=6 - len(blocks),
    )


def test_a_decoded_token_takes_a_block_only_when_the_last_one_is_full(phase2: ModuleType) -> None:
    bench = ManagerBench(phase2, 6)
    request = make_request("A", 3)
    bench.allocate(request, 3)
    for num_computed, new, table in ((3, [], [1]), (4, [2], [1, 2]), (5, [], [1, 2]), (6, [], [1, 2]), (7, [], [1, 2])):
        request.all_token_ids.append(7)
        bench.allocate(request, 1)
        bench.check(
            "One more token takes a new block only if the last block has no room. Room is a success: the answer is [].",
            f"{num_computed} tokens are computed and 1 is new. How many blocks is that, and how many does A hold?",
            returned=new,
            tables={"A": table},
            num_free=6 - len(table),
        )
    request.all_token_ids.append(7)
    bench.allocate(request, 1)
    bench.check("The ninth token begins the third block.", "what is 9 / 4, rounded up?", returned=[3], num_free=3)


def test_a_hundred_decoded_tokens(phase2: ModuleType) -> None:
    bench = ManagerBench(phase2, 200, block_size=16)
    request = make_request("A", 1)
    for _ in range(100):
        bench.allocate(request, 1)
        request.all_token_ids.append(7)
    del bench.story[4:-1]
    bench.story.insert(4, "... and so on, 100 tokens one by one")
    bench.check("100 tokens, one by one, fill 7 blocks of 16.", "what is 100 / 16, rounded up?", num_free=193)


def test_chunks_of_a_prompt_share_a_block(phase2: ModuleType) -> None:
    bench = ManagerBench(phase2, 6)
    request = make_request("A", 14)
    for num_new, blocks, num_free in ((6, [1, 2], 4), (1, [], 4), (7, [3, 4], 2)):
        bench.allocate(request, num_new)
        bench.check(
            "What counts is the sum: (computed + new) / block_size, rounded up, minus the blocks held.",
            "do you round up the new tokens alone?",
            returned=blocks,
            num_free=num_free,
        )


def test_requests_take_turns(phase2: ModuleType) -> None:
    bench = ManagerBench(phase2, 6)
    first, second = make_request("A", 8), make_request("B", 2)
    bench.allocate(first, 5)
    bench.allocate(second, 2)
    bench.allocate(first, 3)
    bench.check("The last block of A has room for 3 tokens.", "how many tokens does it hold?", returned=[], num_free=3)
    bench.allocate(first, 2)
    bench.check(
        "Each request has its own table; its blocks need not lie side by side.",
        "which block is at the front of the free queue when A needs its third?",
        returned=[4],
        tables={"A": [1, 2, 4], "B": [3]},
        num_free=2,
    )


def test_all_or_none(phase2: ModuleType) -> None:
    bench = ManagerBench(phase2, 4)
    first, second = make_request("A", 40), make_request("B", 40)
    bench.allocate(first, 6)
    bench.cache.take_calls()
    bench.allocate(first, 11)
    bench.check(
        "A request gets all its blocks or none. None is a refusal, and a refusal changes nothing.",
        "3 more blocks are needed and 2 are free. What may have happened when you return None?",
        returned=None,
        tables={"A": [1, 2]},
        num_free=2,
        cache_calls=[],
    )
    bench.allocate(second, 9)
    bench.check(
        "A new request that is refused holds nothing, and the prefix cache hears nothing of it.",
        "do you make its table before you know that there is memory?",
        returned=None,
        tables={"A": [1, 2]},
        num_free=2,
        cache_calls=[],
    )
    bench.allocate(first, 10)
    bench.check(
        "Just enough is enough.", "2 blocks are needed and 2 are free: is that too few?", returned=[3, 4], num_free=0
    )


def test_room_in_the_last_block_needs_no_free_block(phase2: ModuleType) -> None:
    bench = ManagerBench(phase2, 2)
    request = make_request("A", 20)
    bench.allocate(request, 6)
    bench.allocate(request, 2)
    bench.check(
        "With nothing free, a request whose last block has room is served.",
        "how many blocks does it need?",
        returned=[],
        num_free=0,
    )
    bench.allocate(request, 1)
    bench.check("With nothing free, a full table cannot grow.", "what is 9 / 4, rounded up?", returned=None, num_free=0)


def test_a_refused_request_is_still_to_be_admitted(phase2: ModuleType) -> None:
    bench = ManagerBench(phase2, 5)
    request = make_request("A", 40)
    bench.allocate(request, 13, hits=[2, 3])
    bench.check(
        "4 new blocks and 2 free hits do not fit in 5.", "how many leave the free queue?", returned=None, num_free=5
    )
    bench.allocate(request, 9, hits=[2, 3])
    bench.check(
        "A request that was refused at its admission is admitted later, hit blocks and all.",
        "does a refusal leave anything behind that makes the request look admitted?",
        returned=[1, 4, 5],
        tables={"A": [2, 3, 1, 4, 5]},
        num_free=0,
        cache_calls=[
            "pin(A, [2, 3])",
            "evict(1)",
            "evict(4)",
            "evict(5)",
            "cache_full_blocks(A, [2, 3, 1, 4], 2, 4)",
        ],
    )


def test_hit_blocks_are_pinned_before_new_ones_are_taken(phase2: ModuleType) -> None:
    bench = ManagerBench(phase2, 6)
    bench.allocate(make_request("A", 15), 7, hits=[1, 2])
    bench.check(
        "First the hit blocks are pinned, which takes them out of the free queue; then new ones are handed out.",
        "blocks 1 and 2 lie at the front of the free queue. Who gets them if you take new blocks first?",
        returned=[3, 4],
        tables={"A": [1, 2, 3, 4]},
        num_free=2,
        cache_calls=["pin(A, [1, 2])", "evict(3)", "evict(4)", "cache_full_blocks(A, [1, 2, 3], 2, 3)"],
    )


@pytest.mark.parametrize(("num_new", "returned"), [(8, [2, 4]), (9, None)])
def test_free_hit_blocks_count_as_needed(phase2: ModuleType, num_new: int, returned: list[int] | None) -> None:
    bench = ManagerBench(phase2, 4)
    bench.allocate(make_request("A", 30), num_new, hits=[1, 3])
    bench.check(
        "A hit block that nobody holds leaves the free queue too: it counts as needed memory, beside the new blocks.",
        "4 blocks are free, 2 of them are the hit. How many new ones can there be?",
        returned=returned,
        num_free=4 if returned is None else 0,
    )


def test_held_hit_blocks_cost_nothing(phase2: ModuleType) -> None:
    bench = ManagerBench(phase2, 4)
    bench.allocate(make_request("A", 9), 9)
    bench.allocate(make_request("B", 12), 4, hits=[1, 2])
    bench.check(
        "A hit block that another request holds is shared: it needs no free block.",
        "how many of the hit blocks lie in the free queue?",
        returned=[4],
        tables={"A": [1, 2, 3], "B": [1, 2, 4]},
        num_free=0,
    )


def test_a_mixed_hit_counts_only_its_free_part(phase2: ModuleType) -> None:
    bench = ManagerBench(phase2, 5)
    bench.allocate(make_request("A", 4), 4)
    bench.allocate(make_request("B", 30), 13, hits=[1, 2])
    bench.check("1 free hit and 4 new blocks do not fit in 4.", "which hit block is free?", returned=None, num_free=4)
    bench.allocate(make_request("B", 30), 12, hits=[1, 2])
    bench.check(
        "Of the hit only block 2 is free: 1 and 3 new ones fit in 4.",
        "which of the hit blocks leave the free queue?",
        returned=[3, 4, 5],
        tables={"A": [1], "B": [1, 2, 3, 4, 5]},
        num_free=0,
    )


def test_every_admission_is_told_to_the_prefix_cache(phase2: ModuleType) -> None:
    bench = ManagerBench(phase2, 6)
    request = make_request("A", 3)
    bench.allocate(request, 2)
    bench.check(
        "A request that is admitted is pinned, hit or no hit: the prefix cache counts both.",
        "is a request without a hit admitted?",
        cache_calls=["pin(A, [])", "evict(1)"],
    )
    bench.allocate(request, 1)
    bench.check(
        "A request that has a table is not admitted again.",
        "how do you tell an admission from a later step?",
        returned=[],
        cache_calls=[],
    )


def test_full_blocks_enter_the_cache_when_they_are_allocated(phase2: ModuleType) -> None:
    bench = ManagerBench(phase2, 8)
    request = make_request("A", 20)
    for num_new, calls in (
        (3, ["pin(A, [])", "evict(1)"]),
        (1, ["cache_full_blocks(A, [1], 0, 1)"]),
        (9, ["evict(2)", "evict(3)", "evict(4)", "cache_full_blocks(A, [1, 2, 3], 1, 3)"]),
        (2, []),
    ):
        bench.allocate(request, num_new)
        bench.check(
            "The blocks that this step fills enter the prefix cache now, and only these: from the number of full "
            "blocks before to the number after. No block became full: no call.",
            "how many blocks were full before the new tokens, and how many are full with them?",
            cache_calls=calls,
        )


def test_tokens_that_are_not_known_yet_fill_no_block(phase2: ModuleType) -> None:
    bench = ManagerBench(phase2, 8)
    request = make_request("A", 6)
    bench.allocate(request, 5)
    bench.cache.take_calls()
    bench.allocate(request, 4)
    bench.check(
        "Only tokens that the request has can fill a block of the cache: count up to num_tokens, not further.",
        "9 slots are planned, but A has 6 tokens. What would the hash of its second block be made of?",
        returned=[3],
        cache_calls=["evict(3)"],
    )


def test_lookahead_needs_slots_and_fills_nothing(phase2: ModuleType) -> None:
    bench = ManagerBench(phase2, 6)
    request = make_request("A", 12)
    bench.allocate(request, 3, lookahead=2)
    bench.check(
        "Lookahead tokens need slots like new ones, but they fill no block of the cache.",
        "3 new and 2 lookahead tokens: how many slots, and how many full blocks that may be cached?",
        returned=[1, 2],
        cache_calls=["pin(A, [])", "evict(1)", "evict(2)"],
    )
    bench.allocate(request, 2)
    bench.check(
        "Slots that were taken for lookahead are used later.",
        "how many blocks does A hold, and how many do 5 tokens need?",
        returned=[],
        num_free=4,
        cache_calls=["cache_full_blocks(A, [1], 0, 1)"],
    )


def test_holding_more_than_needed_is_fine(phase2: ModuleType) -> None:
    bench = ManagerBench(phase2, 4)
    request = make_request("A", 30)
    bench.allocate(request, 2, lookahead=13)
    bench.allocate(request, 1)
    bench.check(
        "A request that holds more blocks than it needs takes none, gives none back, and that is a success.",
        "needed minus held is below 0 here. What does your code do with that?",
        returned=[],
        tables={"A": [1, 2, 3, 4]},
        num_free=0,
    )


def test_the_hit_is_what_the_prefix_cache_finds(phase2: ModuleType) -> None:
    bench = ManagerBench(phase2, 6)
    bench.cache.hits["A"] = [5, 2]
    request = make_request("A", 12)
    found = bench.kv.get_computed_blocks(request)
    compare(
        "get_computed_blocks returns what find_longest_cache_hit finds, and takes nothing.",
        before=["the prefix cache finds blocks [5, 2] for A"],
        expected={"found": [5, 2], "num_free_blocks": 6, "block_ids('A')": [], "cache calls": []},
        yours={
            "found": list(found),
            "num_free_blocks": bench.kv.num_free_blocks,
            "block_ids('A')": list(bench.kv.block_ids("A")),
            "cache calls": bench.cache.take_calls(),
        },
        hint="who is asked, and does asking change anything?",
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_allocation_agrees_with_a_slow_model(phase2: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    fail_with_smallest([_manager_differs(phase2, rng, with_free=False) for _ in range(NUM_STATES)])
