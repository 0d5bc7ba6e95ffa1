"""Counts the matched recordings with 0.13.0's rules, and then with the tasks of phase 14 added one by one."""

from collections.abc import Iterator
from dataclasses import fields, replace

from mini_vllm.assembly.elective_parts import Electives
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.electives.releases.release_functions import RULES_OF_0_13, ReleaseFunctions
from mini_vllm_labs.runs.parity.replay import compare
from mini_vllm_labs.runs.parity.scenario import NEWER_FILES, Scenario, read_scenarios

PHASE = 14


def plain_recordings() -> list[Scenario]:
    """Return the newest release's recordings that need no other elective and list no vLLM defect."""
    found = (scenario for path in NEWER_FILES[:2] for scenario in read_scenarios(path))
    return [one for one in found if one.electives == {PHASE} and not one.has_gates and not one.defects]


def matches_by_task(lineup: Lineup) -> list[int]:
    """Return how many plain recordings agree with 0.13.0's rules, and then as each task is added.

    The last count covers the whole phase. Raises `NotImplementedError` for an unwritten task.
    """
    scenarios = plain_recordings()
    yours = Electives(lineup, scenarios[0].config()).releases
    assert yours is not None
    return [
        sum(compare(one, lineup, releases=functions) is None for one in scenarios) for functions in _one_by_one(yours)
    ]


def _one_by_one(yours: ReleaseFunctions) -> Iterator[ReleaseFunctions]:
    functions = RULES_OF_0_13
    yield functions
    for field in fields(ReleaseFunctions):
        functions = replace(functions, **{field.name: getattr(yours, field.name)})
        yield functions
