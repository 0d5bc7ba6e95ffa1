"""FCFS and PRIORITY as policies decide exactly as the engine without the seam, that is, as vLLM."""

from pathlib import Path

import pytest

from course.parity.replay import compare
from course.parity.scenario import PUBLIC_FILES, Scenario, read_scenarios
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.core.policy.scheduling_policy import SchedulingPolicy
from policies.priority import Priority

REFERENCE = parse_lineup("solution:1-5,solution:7-9,solution:11-12")
MEMBERS = {"fcfs": SchedulingPolicy, "priority": Priority}


@pytest.mark.parametrize("file", PUBLIC_FILES, ids=lambda file: file.name)
def test_members_decide_as_vllm_block_for_block(file: Path) -> None:
    scenarios: list[Scenario] = [one for one in read_scenarios(file) if not one.defects]
    assert scenarios
    for scenario in scenarios:
        policy = MEMBERS[scenario.config().policy]()
        assert compare(scenario, REFERENCE, policy) is None, scenario.name
