"""How much work a call of phase 2 does: blocks looked at, lines run, lists copied. Nothing here is to be filled in."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from course.labtest.phase2.doubles import CountedBlock, LookCounter, RecordingPrefixCache
from course.labtest.support import make_request
from course.labtest.work import work_of
from mini_vllm.core.interfaces import KVCacheManager
from mini_vllm.core.request import Request

Prepare = Callable[[int], Callable[[], object]]


def work_on_blocks(phase2: ModuleType, prepare: Prepare) -> Callable[[int], int]:
    """Return a function that counts the work of the call that `prepare` makes for a number of blocks or requests."""

    def work_with(length: int) -> int:
        looks = LookCounter()

        class Block(CountedBlock):
            def __init__(self, block_id: int, *others: Any, **named: Any) -> None:
                super().__init__(block_id, looks)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(phase2, "KVCacheBlock", Block, raising=False)
            act = prepare(length)
            looks.count = 0
            return work_of(act, str(phase2.__file__)) + looks.count

    return work_with


def queue_call(phase2: ModuleType, call: str) -> Prepare:
    """Return what prepares one call of a free queue; the block that `remove` takes out lies in the middle."""

    def prepare(length: int) -> Callable[[], object]:
        blocks = [phase2.KVCacheBlock(block_id) for block_id in range(length + 1)]
        queue = phase2.FreeKVCacheBlockQueue(blocks[:-1])
        given = {"append": blocks[-1:], "remove": blocks[length // 2 : length // 2 + 1]}.get(call, [])
        return lambda: getattr(queue, call)(*given)

    return prepare


def pool_call(phase2: ModuleType, call: str) -> Prepare:
    """Return what prepares one call of a pool whose blocks are free, but for block 1."""

    def prepare(length: int) -> Callable[[], object]:
        pool = phase2.BlockPool(length + 1, RecordingPrefixCache())
        pool.get_new_blocks(1)
        calls: dict[str, Callable[[], object]] = {
            "touch of a free block": lambda: pool.touch(length // 2),
            "touch of a held block": lambda: pool.touch(1),
            "get_new_blocks(1)": lambda: pool.get_new_blocks(1),
            "free_blocks of one block": lambda: pool.free_blocks([1]),
        }
        return calls[call]

    return prepare


ManagerCall = Callable[[KVCacheManager, Request, Request], object]
ALLOCATIONS: dict[str, ManagerCall] = {
    "allocate_slots with one new block": lambda kv, request, newcomer: kv.allocate_slots(request, 3),
    "allocate_slots with room in the last block": lambda kv, request, newcomer: kv.allocate_slots(request, 1),
    "allocate_slots at an admission": lambda kv, request, newcomer: kv.allocate_slots(newcomer, 9, [1, 7]),
    "num_free_blocks": lambda kv, request, newcomer: kv.num_free_blocks,
}
OTHER_CALLS: dict[str, ManagerCall] = {
    "free": lambda kv, request, newcomer: kv.free(request, 6),
    "free of a request without blocks": lambda kv, request, newcomer: kv.free(newcomer, 0),
    "block_ids": lambda kv, request, newcomer: kv.block_ids("A"),
}


def manager_call(phase2: ModuleType, call: ManagerCall, num_others: Callable[[int], int] = lambda length: 0) -> Prepare:
    """Return what prepares one call of a manager with free blocks, or with a number of other requests."""

    def prepare(length: int) -> Callable[[], object]:
        kv = phase2.PagedKVCacheManager(20 + length, 4, RecordingPrefixCache())
        request, newcomer = make_request("A", 40), make_request("B", 40)
        kv.allocate_slots(request, 6)
        request.num_computed_tokens = 6
        for number in range(num_others(length)):
            kv.allocate_slots(make_request(f"other {number}", 1), 1)
        return lambda: call(kv, request, newcomer)

    return prepare
