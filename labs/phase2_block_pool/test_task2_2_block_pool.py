"""Graded tests of task 2.2."""

import random
from types import ModuleType

import pytest

from course.labtest.phase2.cases import NUM_STATES, SEEDS
from course.labtest.phase2.harness import PoolBench
from course.labtest.support import compare, difference, fail_with_smallest


def _pool_differs(phase2: ModuleType, rng: random.Random) -> str:
    num_gpu_blocks = rng.randint(2, 9)
    bench = PoolBench(phase2, num_gpu_blocks)
    free, held = list(range(1, num_gpu_blocks)), list[int]()  # a block with two holders is in `held` twice
    for turn in range(rng.randint(3, 12), -1, -1):
        if rng.random() < 0.05:
            bench.use_another()
        act = rng.choice(("get", "touch", "free")) if turn else "get"
        given: list[int] = []
        yours: list[int] = []
        if act == "get":
            given = free[: rng.randint(0, len(free))] if turn else list(free)
            free = free[len(given) :]
            held += given
            yours = bench.get_new_blocks(len(given))
        elif act == "touch":
            block_id = rng.randint(1, num_gpu_blocks - 1)
            free = [other for other in free if other != block_id]
            held.append(block_id)
            bench.touch(block_id)
        elif held:
            gone = rng.sample(held, rng.randint(1, len(held)))
            for block_id in gone:
                held.remove(block_id)
                free += [block_id] * (block_id not in held)
            bench.free_blocks(gone)
        report = difference(
            "After these uses your pool hands out, or tells the prefix cache, something else than plain lists do.",
            before=bench.story,
            expected={"handed out": given, "cache calls": [f"evict({block_id})" for block_id in given]},
            yours={"handed out": yours, "cache calls": bench.cache.take_calls()},
            hint="count the holders of each block line by line. In which order did the free ones become free?",
        )
        if report:
            return report
    return ""


def test_a_new_pool_hands_out_from_block_1(phase2: ModuleType) -> None:
    bench = PoolBench(phase2, 6)
    bench.check_handed_out("No block is asked for, none is given.", "what does your loop do 0 times?", 0, [])
    for num_blocks, block_ids in ((2, [1, 2]), (3, [3, 4, 5])):
        bench.check_handed_out(
            "A new pool hands out its blocks in the order of their ids. Block 0 is the null block and never handed "
            "out. The prefix cache is told of each block that changes hands.",
            "which blocks go into the free queue at the start?",
            num_blocks,
            block_ids,
        )


def test_freed_blocks_go_to_the_back_in_the_order_given(phase2: ModuleType) -> None:
    bench = PoolBench(phase2, 7)
    bench.get_new_blocks(4)
    bench.free_blocks([3, 1])
    bench.free_blocks([4])
    bench.check_handed_out(
        "Freed blocks go to the back of the free queue, in the order in which they were freed. The block that has "
        "been free longest is handed out first.",
        "5 and 6 were never used. Do they come before or after the ones that were freed?",
        5,
        [5, 6, 3, 1, 4],
    )


def test_a_shared_block_is_free_when_its_last_holder_lets_go(phase2: ModuleType) -> None:
    bench = PoolBench(phase2, 5)
    bench.get_new_blocks(2)
    bench.touch(1, 1)
    bench.free_blocks([1, 2])
    bench.check_handed_out("A block that somebody holds is not handed out.", "who else holds block 1?", 3, [3, 4, 2])
    bench.free_blocks([1])
    bench.free_blocks([3, 1])
    bench.check_handed_out("The last holder makes the block free.", "how many hold block 1 now?", 2, [3, 1])


def test_a_block_held_twice_by_one_list_loses_two_holders(phase2: ModuleType) -> None:
    bench = PoolBench(phase2, 4)
    bench.get_new_blocks(2)
    bench.touch(1)
    bench.free_blocks([1, 2, 1])
    bench.check_handed_out(
        "Every entry of the list takes one holder off its block; it goes to the back when the last one is off.",
        "at which of the three entries does block 1 become free?",
        3,
        [3, 2, 1],
    )


def test_touch_takes_a_free_block_out_of_the_queue(phase2: ModuleType) -> None:
    bench = PoolBench(phase2, 7)
    bench.touch(3, 1, 6)
    compare(
        "A block that is touched keeps what it holds: that is why it is touched. Nothing is evicted.",
        before=bench.story,
        expected={"cache calls": []},
        yours={"cache calls": bench.cache.take_calls()},
        hint="when is the content of a block forgotten: when it leaves the free queue, or when it is handed out?",
    )
    bench.check_handed_out(
        "A free block that is touched has a holder: it is out of the free queue, wherever it lay.",
        "blocks 3, 1 and 6 have a holder. Are they still in line to be handed out?",
        3,
        [2, 4, 5],
    )
    bench.free_blocks([6, 3])
    bench.check_handed_out("It comes back at the back.", "where does a freed block go?", 2, [6, 3])


def test_touch_adds_one_holder_each_time(phase2: ModuleType) -> None:
    bench = PoolBench(phase2, 4)
    bench.touch(2, 2, 2)
    bench.free_blocks([2])
    bench.free_blocks([2])
    bench.check_handed_out("Three holders, two let go: one is left.", "how many holders has block 2?", 2, [1, 3])
    bench.free_blocks([2])
    bench.check_handed_out("Three holders, three let go: it is free.", "how many holders has block 2?", 1, [2])


def test_freeing_forgets_nothing(phase2: ModuleType) -> None:
    bench = PoolBench(phase2, 4)
    block_ids = bench.get_new_blocks(2)
    bench.cache.take_calls()
    bench.free_blocks(block_ids)
    compare(
        "A freed block keeps its content until it is handed out again: somebody may ask for the same prefix before.",
        before=bench.story,
        expected={"cache calls": []},
        yours={"cache calls": bench.cache.take_calls()},
        hint="which method tells the prefix cache to forget?",
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_pool_agrees_with_plain_lists(phase2: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    fail_with_smallest([_pool_differs(phase2, rng) for _ in range(NUM_STATES)])
