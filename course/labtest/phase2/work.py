"""How much the learner's code does in one call: blocks looked at and lines run. Both count, neither is a clock."""

import sys
from collections.abc import Callable
from types import FrameType, ModuleType
from typing import Any

import pytest

from course.labtest.expect import expect_equal
from course.labtest.phase2.doubles import CountedBlock, LookCounter, RecordingPrefixCache

SHORT, LONG = 9, 900  # a walk over all blocks takes a hundred times as long
ROOM = 20  # lines that may differ without a walk: a branch more, a loop of one turn


def check_constant_work(
    phase2: ModuleType, call: str, prepare: Callable[[int], Callable[[], object]], rule: str, hint: str
) -> None:
    """Check that a call does no more work with many free blocks than with few."""
    work = {length: work_of(phase2, prepare, length) for length in (SHORT, LONG)}
    expect_equal(
        {"does more in the large pool": work[LONG] > 2 * work[SHORT] + ROOM},
        {"does more in the large pool": False},
        rule=rule,
        situation=[
            f"{call} with {SHORT} free blocks, and with {LONG}",
            f"lines run and blocks looked at: {work[SHORT]} with {SHORT} blocks, {work[LONG]} with {LONG}",
        ],
        hint=hint,
    )


def work_of(phase2: ModuleType, prepare: Callable[[int], Callable[[], object]], length: int) -> int:
    """Return the work of the call that `prepare(length)` returns, on a pool or manager of `length` free blocks."""
    looks = LookCounter()

    class Block(CountedBlock):
        def __init__(self, block_id: int, *others: Any, **named: Any) -> None:
            super().__init__(block_id, looks)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(phase2, "KVCacheBlock", Block, raising=False)
        act = prepare(length)
        looks.count = 0
        return lines_run(act, str(phase2.__file__)) + looks.count


def lines_run(act: Callable[[], object], file: str) -> int:
    """Call `act`; return how many lines of `file` ran, one more for each turn of a loop."""
    num_lines = 0

    def trace(frame: FrameType, event: str, value: object) -> Any:
        nonlocal num_lines
        if frame.f_code.co_filename != file:
            return None
        num_lines += event == "line"
        return trace

    before = sys.gettrace()  # a debugger, or coverage
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return num_lines


def pool_call(phase2: ModuleType, call: str) -> Callable[[int], Callable[[], object]]:
    """Return what `work_of` prepares: one call of a pool whose blocks are free, but for block 1."""

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
