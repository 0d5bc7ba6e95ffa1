"""Graded tests of task 2.3: all blocks or none."""

from types import ModuleType

import pytest

from course.labtest.phase2.manager_harness import ManagerHarness
from course.labtest.support import make_request


def test_all_blocks_or_none(phase2: ModuleType) -> None:
    harness = ManagerHarness(phase2, 4)
    first, second = make_request("A", 40), make_request("B", 40)
    harness.allocate(first, 6)
    harness.cache.take_calls()
    harness.allocate(first, 11)
    harness.check(
        "A request gets all its blocks or none. None is a refusal, and a refusal changes nothing.",
        "3 more blocks are needed and 2 are free. What does your code return, and what has it changed by then?",
        returned=None,
        tables={"A": [1, 2]},
        num_free=2,
        cache_calls=[],
    )
    harness.allocate(second, 9)
    harness.check(
        "A new request that is refused holds nothing, and no method of the prefix cache is called.",
        "B needs 3 blocks and 2 are free. What do you return, and what has become of table, blocks and cache by then?",
        returned=None,
        tables={"A": [1, 2]},
        num_free=2,
        cache_calls=[],
    )
    harness.allocate(first, 10)
    harness.check("2 needed, 2 free: that is enough.", "how many blocks are 16 tokens?", returned=[3, 4], num_free=0)


@pytest.mark.parametrize("num_usable", [1, 50, 1000])
def test_a_request_can_have_every_block(phase2: ModuleType, num_usable: int) -> None:
    harness = ManagerHarness(phase2, num_usable)
    request = make_request("A", 4 * num_usable)
    harness.allocate(request, 4 * num_usable - 1)
    if harness.answer is not None:
        harness.raw_answer = harness.answer = [len(harness.answer)]
        harness.history[-1] = f"{harness.history[-1].partition('  -> ')[0]}; compared: how many blocks it returns"
    harness.check(
        "The last free block is handed out like any other: no reserve is kept.",
        "how many blocks are needed, and how many are free?",
        returned=[num_usable],
        num_free=0,
    )


@pytest.mark.parametrize("lookahead", [0, 3, 9, 33])
@pytest.mark.parametrize(("num_held", "num_idle"), [(2, 0), (0, 2), (2, 3)])
def test_every_free_block_may_be_used(phase2: ModuleType, num_held: int, num_idle: int, lookahead: int) -> None:
    harness = ManagerHarness(phase2, 20)
    if num_held:
        harness.allocate(make_request("A", 4 * num_held + 4), 4 * num_held)
    hits = list(range(1, num_held + num_idle + 1))
    request, num_new = make_request("B", 100), 80 - 4 * len(hits) - lookahead
    harness.allocate(request, num_new + 1, hits, lookahead)
    rule = "Exactly enough is enough: no block is kept back, whether hits are held or free, and with lookahead slots. "
    rule += "One token more is refused."
    hint = (
        f"of {len(hits)} hit blocks A holds {num_held}. How many blocks leave the free queue for B, hit ones too, and "
    )
    hint += "how many are there?"
    harness.check(rule, hint, returned=None, num_free=20 - num_held)
    harness.allocate(request, num_new, hits, lookahead)
    harness.check(rule, hint, returned=list(range(len(hits) + 1, 21)), num_free=0)


def test_room_in_the_last_block_needs_no_free_block(phase2: ModuleType) -> None:
    harness = ManagerHarness(phase2, 2)
    request = make_request("A", 20)
    harness.allocate(request, 6)
    harness.allocate(request, 2)
    harness.check(
        "No block is free, but the last block of the request has room: it is served.",
        "how many blocks do 8 tokens need, and how many does A hold?",
        returned=[],
        num_free=0,
    )
    harness.allocate(request, 1)
    harness.check(
        "No block is free, and the last one is full.", "what is 9 / 4, rounded up?", returned=None, num_free=0
    )
