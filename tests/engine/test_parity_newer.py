"""Under the rules of 0.33.0, our decisions match that release's, block id for block id."""

from collections import Counter
from itertools import chain
from pathlib import Path

import pytest

from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.electives.releases.step_state import StepState
from mini_vllm.release_rules import rules
from mini_vllm_labs.runs.parity.by_task import plain_recordings
from mini_vllm_labs.runs.parity.replay import compare, run_free_of_defects
from mini_vllm_labs.runs.parity.scenario import NEWER_FILES, Scenario, read_scenarios
from mini_vllm_labs.runs.parity.verdict import KNOWN_DEFECTS

REFERENCE = parse_lineup("solution:1-5,solution:7-9,solution:11-12,solution:14")
MATCHED = {
    "named": 118,
    **{"base": 68, "spec": 49, "async": 66, "async_spec": 58},
    **{"grammar": 30, "lora": 32, "encoder": 40, "remote": 21, "window": 43, "hybrid": 44, "gates": 15},
}
# These scenarios would differ if prompts were reserved and `own_reservation` remained; with both defects gone, they are
# the same again.
SAME_WITHOUT_BOTH = {"gates33-remote-028", "gates33-remote-058", "gates33-gates-020", "gates33-gates-029"}


@pytest.mark.parametrize("file", NEWER_FILES, ids=lambda file: file.name)
def test_every_recording_is_matched_or_shows_a_defect(file: Path) -> None:
    matched: Counter[str] = Counter()
    defects: set[str] = set()
    differences: dict[str, str] = {}
    for scenario in read_scenarios(file):
        difference = compare(scenario, REFERENCE)
        if scenario.defects:
            defects |= set(scenario.defects)
            run_free_of_defects(scenario, REFERENCE)
            assert (difference is None) == (scenario.name in SAME_WITHOUT_BOTH), scenario.name
        elif difference is None:
            matched[scenario.kind] += 1
        else:
            differences[scenario.name] = str(difference)
    assert differences == {}
    assert matched, "nothing was compared"
    assert matched.items() <= MATCHED.items()
    assert defects <= KNOWN_DEFECTS["0.33.0"]


def test_steps_that_need_no_newer_rule_decide_as_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without phase 9's and 11's layers, a step without newer rules gives phase 1 the same parts as 0.13.0."""
    may_skip, answers = StepState.can_skip_newer_rules, Counter[bool]()

    def counted(step: StepState, num_free_blocks: int) -> bool:
        answers[answer := may_skip(step, num_free_blocks)] += 1
        return answer

    monkeypatch.setattr(StepState, "can_skip_newer_rules", counted)
    lineup = parse_lineup("solution:1-5,solution:14")
    assert [one.name for one in plain_recordings() if compare(one, lineup) is not None] == []
    assert answers[True] > 1000
    assert answers[False] > 1000


WITNESSES = {one.name: one.metadata["trace"] for one in rules()}


@pytest.fixture(scope="module")
def witnesses() -> dict[str, Scenario]:
    scenarios = chain(read_scenarios(NEWER_FILES[0]), read_scenarios(NEWER_FILES[2]))
    return {scenario.name: scenario for scenario in scenarios if scenario.name in WITNESSES.values()}


@pytest.mark.parametrize("rule", [one.name for one in rules()])
def test_each_rule_is_seen_in_a_recording(
    witnesses: dict[str, Scenario], rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = witnesses[WITNESSES[rule]]
    assert compare(scenario, REFERENCE) is None
    (field,) = (one for one in rules() if one.name == rule)
    metadata = {**field.metadata, "since": "9.0"}
    monkeypatch.setattr(field, "metadata", metadata)
    assert compare(scenario, REFERENCE) is not None, f"{rule} changes nothing here"
