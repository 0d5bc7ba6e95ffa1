"""Graded tests of phase 1."""

from types import ModuleType

import pytest

from labs.support import ClampChunks, SlotCountingKV, make_request, waiting_queue
from mini_vllm.absent import NoPreemption
from mini_vllm.interfaces import SchedulerOutput
from mini_vllm.request import Request


def run_step(
    phase1: ModuleType,
    running: list[Request],
    waiting: list[Request],
    *,
    budget: int = 1000,
    max_num_seqs: int = 100,
    threshold: int = 0,
    num_slots: int = 10_000,
) -> tuple[SchedulerOutput, SlotCountingKV, list[Request], list[Request]]:
    """Take one step; return its plan, the memory, and both queues behind it."""
    kv = SlotCountingKV(num_slots)
    queue = waiting_queue(waiting)
    step = phase1.schedule_step(
        running,
        queue,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=budget,
        kv=kv,
        preemption=NoPreemption(),
        chunks=ClampChunks(phase1.clamp, threshold),
    )
    return step, kv, running, list(queue)


@pytest.mark.task1_1
@pytest.mark.parametrize(
    ("num_new", "budget", "threshold", "expected"),
    [(8, 10, 0, 8), (8, 5, 0, 5), (100, 50, 16, 16), (100, 10, 16, 10), (16, 50, 16, 16), (8, 0, 0, 0), (8, -3, 4, 0)],
)
def test_clamp_chunks_and_budgets(phase1: ModuleType, num_new: int, budget: int, threshold: int, expected: int) -> None:
    assert phase1.clamp(num_new, budget, threshold) == expected


@pytest.mark.task1_3
def test_budget_caps_total_tokens(phase1: ModuleType) -> None:
    step, _, running, waiting = run_step(phase1, [], [make_request(name, 8) for name in "ABC"], budget=10)
    assert step.num_scheduled_tokens == {"A": 8, "B": 2}
    assert [r.request_id for r in running] == ["A", "B"]
    assert [r.request_id for r in waiting] == ["C"]
