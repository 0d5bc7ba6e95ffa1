"""Graded tests of task 2.1."""

import random
from types import ModuleType

import pytest

from course.labtest.phase2.cases import NUM_STATES, SEEDS
from course.labtest.phase2.doubles import CountedBlock, LookCounter
from course.labtest.phase2.harness import QueueBench, check_value_error
from course.labtest.support import compare, difference, fail_with_smallest


def _queue_differs(phase2: ModuleType, rng: random.Random) -> str:
    free, out = rng.sample(range(1, 20), rng.randint(0, 6)), rng.sample(range(20, 30), 3)
    bench = QueueBench(phase2, free)
    for _ in range(rng.randint(4, 14)):
        if rng.random() < 0.05:
            bench.use_another()
        act = rng.choice(("append", "remove", "popleft"))
        popped: object = None
        wanted: object = None
        if act == "append" and out:
            bench.append(out[0])
            free.append(out.pop(0))
        elif act == "remove" and free:
            block_id = rng.choice(free)
            bench.remove(block_id)
            free.remove(block_id)
            out.append(block_id)
        elif act == "popleft" and free:
            popped, wanted = bench.popleft(), free.pop(0)
            out.append(wanted)
        report = difference(
            "After these uses your queue and a plain list do not hold the same.",
            before=bench.story,
            expected={"popped": wanted, "block_ids()": free, "num_free_blocks": len(free)},
            yours={"popped": popped, **bench.state()},
            hint="draw the blocks and their links before the last use. Which arrow is wrong behind it?",
        )
        if report:
            return report
    return ""


def _looks_at_blocks(phase2: ModuleType, use: str, length: int) -> int:
    looks = LookCounter()
    blocks = [CountedBlock(block_id, looks) for block_id in range(length + 1)]
    queue = phase2.FreeKVCacheBlockQueue(blocks[:-1])
    looks.count = 0
    if use == "remove":
        queue.remove(blocks[length // 2])
    elif use == "append":
        queue.append(blocks[-1])
    else:
        queue.popleft()
    return looks.count


@pytest.mark.parametrize("block_ids", [[], [4], [1, 2, 3], [7, 3, 5, 1]])
def test_queue_starts_with_the_blocks_in_order(phase2: ModuleType, block_ids: list[int]) -> None:
    bench = QueueBench(phase2, block_ids)
    bench.check(
        "The queue starts with the blocks that it is given, in their order, and knows how many they are.",
        "do you append the blocks in order, and does each one count?",
        left=block_ids,
    )


def test_popleft_takes_from_the_front_until_nothing_is_left(phase2: ModuleType) -> None:
    bench = QueueBench(phase2, [7, 3, 5])
    for popped, left in ((7, [3, 5]), (3, [5]), (5, [])):
        bench.popleft()
        bench.check("popleft takes the block at the front.", "which block is the first one?", left, popped)


def test_append_puts_at_the_back_also_into_an_empty_queue(phase2: ModuleType) -> None:
    bench = QueueBench(phase2, [])
    for block_id, left in ((5, [5]), (2, [5, 2]), (9, [5, 2, 9])):
        bench.append(block_id)
        bench.check("append puts a block at the back.", "which links change when a block becomes the last?", left)
    bench.popleft()
    bench.check("A block that was appended can be taken.", "is the first block linked from the front?", [2, 9], 5)


@pytest.mark.parametrize(("removed", "left"), [(1, [2, 3, 4]), (2, [1, 3, 4]), (3, [1, 2, 4]), (4, [1, 2, 3])])
def test_remove_takes_a_block_from_anywhere(phase2: ModuleType, removed: int, left: list[int]) -> None:
    bench = QueueBench(phase2, [1, 2, 3, 4])
    bench.remove(removed)
    bench.check(
        "remove takes a block out wherever it lies; the others keep their order.",
        "do both neighbors of the block know each other afterwards, also at the two ends?",
        left,
    )
    bench.append(8)
    bench.check("After a removal the queue can be appended to.", "is the end of the queue still linked?", [*left, 8])
    bench.popleft()
    bench.check("After a removal the queue can be taken from.", "is the front still linked?", [*left[1:], 8], left[0])


def test_a_block_can_come_back(phase2: ModuleType) -> None:
    bench = QueueBench(phase2, [1, 2, 3])
    bench.remove(2)
    bench.append(2)
    bench.check(
        "A block that was removed may be appended again: at the back.", "what did remove leave behind?", [1, 3, 2]
    )
    bench.popleft()
    bench.append(1)
    bench.check("A block that was popped may be appended again.", "what did popleft leave behind?", [3, 2, 1])
    bench.remove(2)
    bench.check("A block that came back can be removed again.", "which neighbors has it now?", [3, 1])


def test_removing_the_only_block_leaves_a_working_queue(phase2: ModuleType) -> None:
    bench = QueueBench(phase2, [6])
    bench.remove(6)
    bench.check("Removing the only block leaves an empty queue.", "what do front and back say now?", [])
    bench.append(6)
    bench.append(4)
    bench.check("An emptied queue works as before.", "what do front and back say now?", [6, 4])


@pytest.mark.parametrize("why", ["removed before", "popped before", "never in the queue"])
def test_removing_a_block_that_is_not_in_the_queue_is_an_error(phase2: ModuleType, why: str) -> None:
    bench = QueueBench(phase2, [1, 2, 3])
    block_id, left = {"removed before": (2, [1, 3]), "popped before": (1, [2, 3])}.get(why, (9, [1, 2, 3]))
    if why == "removed before":
        bench.remove(block_id)
    if why == "popped before":
        bench.popleft()
    check_value_error(
        lambda: bench.remove(block_id),
        "A block that is not in the queue cannot be removed: ValueError. A second removal is a bug that must be seen.",
        bench.story,
        "how can you tell from a block alone that it is not in the queue?",
    )
    bench.check("A removal that fails changes nothing.", "do you count before you know that the block is there?", left)


@pytest.mark.parametrize("block_ids", [[], [5]], ids=["never had one", "emptied"])
def test_popleft_of_an_empty_queue_is_an_error(phase2: ModuleType, block_ids: list[int]) -> None:
    bench = QueueBench(phase2, block_ids)
    for _ in block_ids:
        bench.popleft()
    check_value_error(
        bench.popleft,
        "popleft of an empty queue raises ValueError.",
        bench.story,
        "what stands at the front when no block is free?",
    )
    bench.check("A popleft that fails changes nothing.", "is the count 0, or less?", [])
    bench.append(3)
    bench.check("The queue works on after the error.", "what did the failed popleft touch?", [3])


@pytest.mark.parametrize("seed", SEEDS)
def test_queue_agrees_with_a_plain_list(phase2: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    fail_with_smallest([_queue_differs(phase2, rng) for _ in range(NUM_STATES)])


@pytest.mark.parametrize("use", ["remove", "append", "popleft"])
def test_a_long_queue_costs_no_more_than_a_short_one(phase2: ModuleType, use: str) -> None:
    looks = {length: _looks_at_blocks(phase2, use, length) for length in (9, 900)}
    compare(
        "Every use of the queue takes the same time, however long the queue is: it looks at the same few blocks.",
        before=[
            f"{use} on a queue of 9 blocks, and on one of 900 (the removed block lies in the middle)",
            f"times that your queue looked at a block: {looks[9]} of 9, {looks[900]} of 900",
        ],
        expected={"looks more at the long queue": False},
        yours={"looks more at the long queue": looks[900] > looks[9]},
        hint="a block that knows its neighbors can leave without anybody searching for it. Where do you search?",
    )
