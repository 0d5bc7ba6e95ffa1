"""Graded tests of phase 2.

`doubles.py` stands in for the prefix cache, `benches.py` writes down every use of your classes, and
`model.py` holds the slow pool that the random tests compare with.
"""

import random
from collections.abc import Sequence
from types import ModuleType

import pytest

from course.labtest.phase2.doubles import CountedBlock, LookCounter
from course.labtest.phase2.harness import ManagerBench, PoolBench, QueueBench, check_value_error
from course.labtest.phase2.reference_model import ListPool
from course.labtest.support import compare, difference, fail_with_smallest, make_request
from mini_vllm.core.request import Request, RequestStatus

SEEDS = (1, 2, 3, 4, 5)
NUM_STATES = 60
WAYS_OUT = (RequestStatus.PREEMPTED, RequestStatus.FINISHED_STOPPED, RequestStatus.FINISHED_ABORTED)


# Task 2.1: FreeKVCacheBlockQueue


@pytest.mark.task2_1
@pytest.mark.parametrize("block_ids", [[], [4], [1, 2, 3], [7, 3, 5, 1]])
def test_queue_starts_with_the_blocks_in_order(phase2: ModuleType, block_ids: list[int]) -> None:
    bench = QueueBench(phase2, block_ids)
    bench.check(
        "The queue starts with the blocks that it is given, in their order, and knows how many they are.",
        "do you append the blocks in order, and does each one count?",
        left=block_ids,
    )


@pytest.mark.task2_1
def test_popleft_takes_from_the_front_until_nothing_is_left(phase2: ModuleType) -> None:
    bench = QueueBench(phase2, [7, 3, 5])
    for popped, left in ((7, [3, 5]), (3, [5]), (5, [])):
        bench.popleft()
        bench.check("popleft takes the block at the front.", "which block is the first one?", left, popped)


@pytest.mark.task2_1
def test_append_puts_at_the_back_also_into_an_empty_queue(phase2: ModuleType) -> None:
    bench = QueueBench(phase2, [])
    for block_id, left in ((5, [5]), (2, [5, 2]), (9, [5, 2, 9])):
        bench.append(block_id)
        bench.check("append puts a block at the back.", "which links change when a block becomes the last?", left)
    bench.popleft()
    bench.check("A block that was appended can be taken.", "is the first block linked from the front?", [2, 9], 5)


@pytest.mark.task2_1
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


@pytest.mark.task2_1
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


@pytest.mark.task2_1
def test_removing_the_only_block_leaves_a_working_queue(phase2: ModuleType) -> None:
    bench = QueueBench(phase2, [6])
    bench.remove(6)
    bench.check("Removing the only block leaves an empty queue.", "what do front and back say now?", [])
    bench.append(6)
    bench.append(4)
    bench.check("An emptied queue works as before.", "what do front and back say now?", [6, 4])


@pytest.mark.task2_1
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


@pytest.mark.task2_1
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


@pytest.mark.task2_1
@pytest.mark.parametrize("seed", SEEDS)
def test_queue_agrees_with_a_plain_list(phase2: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    fail_with_smallest([_queue_differs(phase2, rng) for _ in range(NUM_STATES)])


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


@pytest.mark.task2_1
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


# Task 2.2: BlockPool


@pytest.mark.task2_2
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


@pytest.mark.task2_2
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


@pytest.mark.task2_2
def test_a_shared_block_is_free_when_its_last_holder_lets_go(phase2: ModuleType) -> None:
    bench = PoolBench(phase2, 5)
    bench.get_new_blocks(2)
    bench.touch(1, 1)
    bench.free_blocks([1, 2])
    bench.check_handed_out("A block that somebody holds is not handed out.", "who else holds block 1?", 3, [3, 4, 2])
    bench.free_blocks([1])
    bench.free_blocks([3, 1])
    bench.check_handed_out("The last holder makes the block free.", "how many hold block 1 now?", 2, [3, 1])


@pytest.mark.task2_2
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


@pytest.mark.task2_2
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


@pytest.mark.task2_2
def test_touch_adds_one_holder_each_time(phase2: ModuleType) -> None:
    bench = PoolBench(phase2, 4)
    bench.touch(2, 2, 2)
    bench.free_blocks([2])
    bench.free_blocks([2])
    bench.check_handed_out("Three holders, two let go: one is left.", "how many holders has block 2?", 2, [1, 3])
    bench.free_blocks([2])
    bench.check_handed_out("Three holders, three let go: it is free.", "how many holders has block 2?", 1, [2])


@pytest.mark.task2_2
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


@pytest.mark.task2_2
@pytest.mark.parametrize("seed", SEEDS)
def test_pool_agrees_with_plain_lists(phase2: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    fail_with_smallest([_pool_differs(phase2, rng) for _ in range(NUM_STATES)])


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


# Task 2.3: PagedKVCacheManager.allocate_slots


@pytest.mark.task2_3
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


@pytest.mark.task2_3
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


@pytest.mark.task2_3
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


@pytest.mark.task2_3
def test_a_hundred_decoded_tokens(phase2: ModuleType) -> None:
    bench = ManagerBench(phase2, 200, block_size=16)
    request = make_request("A", 1)
    for _ in range(100):
        bench.allocate(request, 1)
        request.all_token_ids.append(7)
    del bench.story[4:-1]
    bench.story.insert(4, "... and so on, 100 tokens one by one")
    bench.check("100 tokens, one by one, fill 7 blocks of 16.", "what is 100 / 16, rounded up?", num_free=193)


@pytest.mark.task2_3
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


@pytest.mark.task2_3
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


@pytest.mark.task2_3
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


@pytest.mark.task2_3
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


@pytest.mark.task2_3
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


@pytest.mark.task2_3
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


@pytest.mark.task2_3
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


@pytest.mark.task2_3
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


@pytest.mark.task2_3
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


@pytest.mark.task2_3
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


@pytest.mark.task2_3
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


@pytest.mark.task2_3
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


@pytest.mark.task2_3
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


@pytest.mark.task2_3
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


@pytest.mark.task2_3
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


@pytest.mark.task2_3
@pytest.mark.parametrize("seed", SEEDS)
def test_allocation_agrees_with_a_slow_model(phase2: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    fail_with_smallest([_manager_differs(phase2, rng, with_free=False) for _ in range(NUM_STATES)])


# Task 2.4: free, and what the manager says about its blocks


@pytest.mark.task2_4
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


@pytest.mark.task2_4
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


@pytest.mark.task2_4
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


@pytest.mark.task2_4
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


@pytest.mark.task2_4
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


@pytest.mark.task2_4
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


@pytest.mark.task2_4
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


@pytest.mark.task2_4
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


@pytest.mark.task2_4
@pytest.mark.parametrize("seed", SEEDS)
def test_manager_agrees_with_a_slow_model(phase2: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    fail_with_smallest([_manager_differs(phase2, rng, with_free=True) for _ in range(NUM_STATES)])


def _manager_differs(phase2: ModuleType, rng: random.Random, *, with_free: bool) -> str:
    """Use the manager beside the slow model; return the report of the first use after which they differ."""
    num_usable, block_size = rng.randint(3, 12), rng.choice((1, 2, 4))
    bench = ManagerBench(phase2, num_usable, block_size)
    model = ListPool(num_usable + 1, block_size)
    requests: dict[str, Request] = {}
    for _ in range(rng.randint(4, 12)):
        if with_free and rng.random() < 0.05:
            bench.use_another()
        name = rng.choice("ABCD")
        request = requests.get(name)
        answer: list[int] | None = None
        hits: Sequence[int] = ()
        if request is not None and with_free and rng.random() < 0.35:
            request.status = rng.choice(WAYS_OUT)
            bench.given_hits = []
            bench.free(request)
            calls = model.free(name, request.num_computed_tokens)
            del requests[name]
            bench.answer = None
        else:
            request, num_new, hits, lookahead = _random_demand(rng, name, request, num_usable, block_size)
            answer, calls = model.allocate(
                name, request.num_computed_tokens, request.num_tokens, num_new, hits, lookahead
            )
            bench.allocate(request, num_new, hits, lookahead, advance=False)
            if answer is not None:
                requests[name] = request
                _advance(rng, request, len(hits) * block_size, num_new)
        report = difference(
            "After these uses your manager and a slow model of it do not hold the same.",
            before=bench.story,
            expected=_expected(model, answer, calls, with_free) | {"hit_blocks afterwards": list(hits)},
            yours=_held(bench, with_free),
            hint="go through the numbered rules of allocate_slots and of free with the last use: where do you part?",
        )
        if report:
            return report
    return ""


def _random_demand(
    rng: random.Random, name: str, request: Request | None, num_usable: int, block_size: int
) -> tuple[Request, int, Sequence[int], int]:
    lookahead = rng.choice((0, 0, 0, 1, 3))
    if request is not None:
        return request, rng.choice((1, 1, 1, 2, 5)), (), lookahead
    request = make_request(name, rng.randint(1, 4 * block_size + 3))
    num_hits = min(rng.choice((0, 1, 2, 3)), (request.num_tokens - 1) // block_size)
    hits = rng.sample(range(1, num_usable + 1), min(num_hits, num_usable))
    return request, rng.randint(1, request.num_tokens - len(hits) * block_size), hits, lookahead


def _advance(rng: random.Random, request: Request, num_hit_tokens: int, num_new: int) -> None:
    """Count new tokens as computed: mostly all, at times some (drafts were rejected), at times not yet."""
    num_kept = rng.choice((num_new, num_new, num_new, num_new - 1, 0))
    request.num_computed_tokens += num_hit_tokens + num_kept
    while request.num_tokens <= request.num_computed_tokens:
        request.all_token_ids.append(7)


def _expected(model: ListPool, answer: list[int] | None, calls: list[str], with_free: bool) -> dict[str, object]:
    expected: dict[str, object] = {
        "allocate_slots": answer,
        "block tables": dict(sorted(model.tables.items())),
        "num_free_blocks": len(model.free_blocks),
        "cache calls": calls,
    }
    if with_free:
        expected |= {
            "free_block_ids": model.free_blocks,
            "ref_counts": model.holders(),
            "usage": round(model.usage(), 6),
        }
    return expected


def _held(bench: ManagerBench, with_free: bool) -> dict[str, object]:
    kv = bench.kv
    yours: dict[str, object] = {
        "allocate_slots": bench.answer,
        "block tables": dict(sorted(bench.tables().items())),
        "num_free_blocks": kv.num_free_blocks,
        "cache calls": bench.cache.take_calls(),
        "hit_blocks afterwards": bench.given_hits,
    }
    if with_free:
        counts = kv.ref_counts()
        yours |= {
            "free_block_ids": [int(block_id) for block_id in kv.free_block_ids()],
            "ref_counts": {block_id: counts[block_id] for block_id in sorted(counts)},
            "usage": round(float(kv.usage), 6),
        }
    return yours
