"""An answer belongs to its caller: tests what counts as a change to an earlier answer, and what does not."""

import sys
from types import ModuleType
from typing import Any

import numpy
import pytest
import torch

from mini_vllm_labs.grading.plays.earlier_answers import earlier_answers
from tests.mutants.refilled import REFILLED

PLAIN = """
from functools import cache
from mini_vllm.core.step import SchedulerOutput
make = eval(KIND)
def answer(number): return make(number)
"""
KINDS = {
    "list": "lambda n: [n]",
    "dict": "lambda n: {n: n}",
    "set": "lambda n: {n}",
    "a list in a tuple": "lambda n: ([n], n)",
    "a dataclass with a dict": "lambda n: SchedulerOutput(n, {'A': n})",
    "tensor": "lambda n: torch.tensor([float(n)])",
    "array": "lambda n: numpy.array([n])",
}
TABLES = """
class PagedKVCacheManager:
    def __init__(self): self.tables = {"A": [1]}
    def block_ids(self, name): return self.tables[name]
    def allocate_slots(self, name):
        self.tables[name].append(2)
        return [2]
    def free(self, name): self.tables[name].clear()
"""


def module(text: str, **names: object) -> Any:
    phase = ModuleType("a_phase")
    vars(phase).update(names)
    exec(text, vars(phase))
    return phase


@pytest.mark.parametrize("kind", KINDS)
def test_a_container_that_is_filled_again_is_named_with_what_it_was(kind: str) -> None:
    names = {"KIND": KINDS[kind], "torch": torch, "numpy": numpy}
    changes = list[Any]()
    for text in (PLAIN, PLAIN + REFILLED.replace("{name}", "answer")):
        phase = module(text, **names)
        with earlier_answers(phase) as earlier, earlier.watched():
            phase.answer(1)
            phase.answer(2)
        changes.append(earlier.changed)
    assert changes[0] is None
    assert changes[1].function == changes[1].by == "answer"
    assert "1" in str(changes[1].before)
    assert "2" in str(changes[1].after)


def test_a_block_table_may_grow_and_the_caller_may_change_its_own_answer() -> None:
    phase = module(TABLES)
    with earlier_answers(phase) as earlier, earlier.watched():
        kv = phase.PagedKVCacheManager()
        kv.block_ids("A")
        kv.allocate_slots("A").append(9)
        kv.allocate_slots("A")
        assert earlier.changed is None
        kv.free("A")
    was, now = "block_ids returned [1, 2, 2]", "After a call of PagedKVCacheManager.free the same answer is []."
    assert str(earlier.changed) == f"PagedKVCacheManager.{was}. {now}"


RECURSIVE = """
def count(number): return [0] if number == 0 else count(number - 1)
def endless(number): return endless(number + 1)
"""


def test_a_watched_function_may_recurse_as_deep_as_an_unwatched_one() -> None:
    depth, phase, limit = 700, module(RECURSIVE), sys.getrecursionlimit()
    assert phase.count(depth) == [0]
    with earlier_answers(phase) as earlier, earlier.watched():
        assert phase.count(depth) == [0]
        with pytest.raises(RecursionError):
            phase.endless(0)
    assert sys.getrecursionlimit() == limit
