"""Bugs that were reported of other engines, each as a lineup: the oracle finds it and names the phase."""

from importlib import import_module
from types import ModuleType

import pytest

from course.oracle.divergence import find_culprit, search, settings_for, with_phase, workload_for
from mini_vllm.assembly.lineup import parse_lineup
from tests.mutants.catalog import ROOT, module_name, reference
from tests.mutants.diffs import Diff, read_diffs

BUGS = read_diffs((ROOT / "tests" / "mutants" / "public_bugs.diff").read_text(encoding="utf-8"))
REFERENCE = parse_lineup("solution:1-5")


@pytest.mark.parametrize("bug", BUGS, ids=[bug.name for bug in BUGS])
def test_the_oracle_finds_the_bug_and_its_phase(bug: Diff, monkeypatch: pytest.MonkeyPatch) -> None:
    phase = int(bug.name[0])
    starter = import_module(f"labs.{module_name(phase)}.starter")
    broken = ModuleType("broken")
    exec(bug.apply(reference(phase).text), vars(broken))
    for name in vars(broken).keys() & vars(starter).keys():
        if not name.startswith("__"):
            monkeypatch.setattr(starter, name, getattr(broken, name))
    mine = with_phase(REFERENCE, phase, "starter")
    found = search(range(40), 10, mine, REFERENCE)
    assert found is not None
    seed, _ = found
    assert find_culprit(workload_for(seed, 10), settings_for(seed), mine, REFERENCE) == [phase]
