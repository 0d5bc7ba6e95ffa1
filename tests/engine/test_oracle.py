"""The oracle finds the first step in which two lineups differ, and the phase that causes it."""

import pytest

from course.oracle.divergence import find_culprit, first_divergence, search, settings_for
from course.workloads.small_workload import make_workload
from labs.phase1_scheduler_step import starter as phase1
from labs.phase2_block_pool import starter as phase2
from labs.phase3_preemption import starter as phase3
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.core.request import Request
from solutions import phase1_scheduler_step, phase2_block_pool, phase3_preemption

REFERENCE = parse_lineup("solution:1-5")
MINE = parse_lineup("starter:1-3,solution:4-5")


class HeadFirst(phase2_block_pool.PagedKVCacheManager):
    """Frees the first block first."""

    def free(self, request: Request, num_computed_tokens: int) -> None:
        table = self.req_to_blocks.get(request.request_id, [])
        table.reverse()
        super().free(request, num_computed_tokens)


@pytest.fixture(autouse=True)
def _filled_starters(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("clamp", "schedule_step", "update_from_output"):
        monkeypatch.setattr(phase1, name, getattr(phase1_scheduler_step, name))
    monkeypatch.setattr(phase2, "PagedKVCacheManager", phase2_block_pool.PagedKVCacheManager)
    for name in ("PriorityRequestQueue", "RecomputePreemption"):
        monkeypatch.setattr(phase3, name, getattr(phase3_preemption, name))


def test_equal_lineups_never_differ() -> None:
    assert search(range(12), 10, MINE, REFERENCE) is None


def test_the_settings_cover_both_policies_and_every_switch() -> None:
    settings = [settings_for(seed) for seed in range(12)]
    assert {s.policy for s in settings} == {"fcfs", "priority"}
    assert {s.enable_prefix_caching for s in settings} == {True, False}
    assert {s.block_size for s in settings} == {3, 4}
    assert {s.enable_chunked_prefill for s in settings} == {True, False}
    assert {s.admission_guard for s in settings} == {True, False}


def test_a_wrong_order_is_found_and_attributed_to_its_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phase2, "PagedKVCacheManager", HeadFirst)
    found = search(range(12), 10, MINE, REFERENCE)
    assert found is not None
    seed, divergence = found
    assert divergence.field == "detail"
    mine, reference = (steps[-1]["detail"]["free_queue"] for steps in (divergence.mine, divergence.reference))
    assert sorted(mine) == sorted(reference)
    assert divergence.mine[:-1] == divergence.reference[:-1]
    assert len(divergence.mine) == len(divergence.reference) == divergence.step + 1
    assert find_culprit(make_workload(seed, 10), settings_for(seed), MINE, REFERENCE) == [2]


def test_an_exception_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(num_new: int, budget: int, threshold: int) -> int:
        raise ZeroDivisionError("budget")

    monkeypatch.setattr(phase1, "clamp", broken)
    divergence = first_divergence(make_workload(0, 4), settings_for(0), MINE, REFERENCE)
    assert divergence is not None
    assert isinstance(divergence.error, ZeroDivisionError)
    assert divergence.step == 0
    assert divergence.mine == []


def test_an_unwritten_phase_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotImplementedError, match="Phase 4, task 2"):
        search([0], 4, parse_lineup("solution:1-3,starter:4,solution:5"), REFERENCE)
