"""For bugs reported in other engines, the oracle finds the first step where two lineups differ, and the phase."""

from collections import defaultdict
from importlib import import_module
from itertools import chain
from types import ModuleType

import pytest

from labs.phase2_block_pool import starter
from mini_vllm.assembly.lineup import Lineup, parse_lineup
from mini_vllm.core.invariants import InvariantError
from mini_vllm_labs.runs.oracle.divergence import (
    NUM_SEEDS,
    REFERENCE,
    find_culprit,
    search,
    settings_for,
    workload_for,
)
from mini_vllm_labs.runs.parity import replay
from mini_vllm_labs.runs.parity.scenario import PUBLIC_FILES, Scenario, read_scenarios
from tests.engine.test_parity import HeadFirst
from tests.mutants.catalog import ROOT, module_name, reference
from tests.mutants.diffs import read_diffs

DIFFS = read_diffs((ROOT / "tests" / "mutants" / "public_bugs.diff").read_text(encoding="utf-8"))
# each name begins with the number of its phase; a bug may need two phases
BUGS = list(dict.fromkeys(diff.name[3:] for diff in DIFFS))
EVERYTHING = "solution:1-5,solution:7-12"
COURSE, MINE = parse_lineup("solution:1-5"), parse_lineup("solution:1,starter:2,solution:3-5")


def with_bug(name: str, lineup: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Lineup, list[int]]:
    """Return a lineup that contains a bug, and the phases that contain it."""
    broken_lineup, phases = parse_lineup(lineup), list[int]()
    for diff in DIFFS:
        if diff.name[3:] == name:
            phases.append(phase := int(diff.name[0]))
            starter, broken = import_module(f"labs.{module_name(phase)}.starter"), ModuleType("broken")
            exec(diff.apply(reference(phase).text), vars(broken))
            for part in vars(broken).keys() & vars(starter).keys():
                if not part.startswith("__"):
                    monkeypatch.setattr(starter, part, getattr(broken, part))
            broken_lineup = broken_lineup.with_phase(phase, "starter")
    return broken_lineup, phases


@pytest.fixture(scope="module")
def with_one_defect() -> dict[str, list[Scenario]]:
    """The recorded traces that show exactly one defect of vLLM, keyed by that defect."""
    found = defaultdict[str, list[Scenario]](list)
    for one in chain.from_iterable(map(read_scenarios, PUBLIC_FILES)):  # running all of them takes a gigabyte of memory
        if len(one.defects) == 1:
            found[one.defects[0]].append(one)
    return found


@pytest.mark.parametrize("bug", BUGS)
def test_the_oracle_finds_the_bug_and_its_phase(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, phases = with_bug(bug, REFERENCE, monkeypatch)
    right = parse_lineup(REFERENCE)
    found = search(range(NUM_SEEDS), 10, mine, right)
    assert found is not None
    seed, _ = found
    assert find_culprit(workload_for(seed, 10), settings_for(seed), mine, right) == phases


def test_with_index_slip_our_decisions_are_vllms_where_it_shows(
    with_one_defect: dict[str, list[Scenario]], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, _ = with_bug(next(bug for bug in BUGS if "index_slip" in bug), EVERYTHING, monkeypatch)
    traces = with_one_defect["index_slip"]
    assert len(traces) == 5
    assert not any(replay.compare(trace, mine) for trace in traces)
    assert all(replay.compare(trace, parse_lineup(EVERYTHING)) for trace in traces)


def test_with_flipped_skips_our_decisions_are_vllms_where_it_shows(
    with_one_defect: dict[str, list[Scenario]], monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, _ = with_bug(next(bug for bug in BUGS if "flipped_skips" in bug), EVERYTHING, monkeypatch)
    traces = with_one_defect["flipped_skips"]
    assert len(traces) == 68
    assert all(replay.compare(trace, parse_lineup(EVERYTHING)) for trace in traces)
    for trace in traces:
        with pytest.raises(InvariantError, match="arrived before"):
            replay.compare(trace, mine)
    monkeypatch.setattr(replay, "check_state", lambda *state: None)
    assert not any(replay.compare(trace, mine) for trace in traces)


def test_the_settings_cover_both_policies_and_every_switch() -> None:
    settings = [settings_for(seed) for seed in range(12)]
    assert {s.policy for s in settings} == {"fcfs", "priority"}
    assert {s.enable_prefix_caching for s in settings} == {True, False}
    assert {s.block_size for s in settings} == {3, 4}
    assert {s.enable_chunked_prefill for s in settings} == {True, False}
    assert {s.admission_guard for s in settings} == {True, False}


def test_a_wrong_order_is_found_and_attributed_to_its_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starter, "PagedKVCacheManager", HeadFirst)
    found = search(range(12), 10, MINE, COURSE)
    assert found is not None
    seed, divergence = found
    assert divergence.field == "detail"
    mine, reference = (steps[-1]["detail"]["free_queue"] for steps in (divergence.mine, divergence.reference))
    assert sorted(mine) == sorted(reference)
    assert divergence.mine[:-1] == divergence.reference[:-1]
    assert len(divergence.mine) == len(divergence.reference) == divergence.step + 1
    assert find_culprit(workload_for(seed, 10), settings_for(seed), MINE, COURSE) == [2]
