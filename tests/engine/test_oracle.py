"""The oracle finds the first step in which two lineups differ, and the phase that causes it."""

import pytest

from course.oracle.divergence import find_culprit, search, settings_for, workload_for
from labs.phase2_block_pool import starter
from mini_vllm.assembly.lineup import parse_lineup
from tests.engine.test_parity_by_phase import HeadFirst

REFERENCE = parse_lineup("solution:1-5")
MINE = parse_lineup("solution:1,starter:2,solution:3-5")


def test_the_settings_cover_both_policies_and_every_switch() -> None:
    settings = [settings_for(seed) for seed in range(12)]
    assert {s.policy for s in settings} == {"fcfs", "priority"}
    assert {s.enable_prefix_caching for s in settings} == {True, False}
    assert {s.block_size for s in settings} == {3, 4}
    assert {s.enable_chunked_prefill for s in settings} == {True, False}
    assert {s.admission_guard for s in settings} == {True, False}


def test_a_wrong_order_is_found_and_attributed_to_its_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starter, "PagedKVCacheManager", HeadFirst)
    found = search(range(12), 10, MINE, REFERENCE)
    assert found is not None
    seed, divergence = found
    assert divergence.field == "detail"
    mine, reference = (steps[-1]["detail"]["free_queue"] for steps in (divergence.mine, divergence.reference))
    assert sorted(mine) == sorted(reference)
    assert divergence.mine[:-1] == divergence.reference[:-1]
    assert len(divergence.mine) == len(divergence.reference) == divergence.step + 1
    assert find_culprit(workload_for(seed, 10), settings_for(seed), MINE, REFERENCE) == [2]
