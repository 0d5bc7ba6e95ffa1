"""Finds the phases that a recorded scenario needs, so that a partial engine can be compared with vLLM."""

from collections.abc import Iterable
from dataclasses import dataclass

from mini_vllm.assembly.lineup import ALL_NAMES, Lineup
from mini_vllm_labs.runs.parity.scenario import Scenario
from mini_vllm_labs.runs.parity.verdict import ParityVerdict, judge

ALWAYS = frozenset({1, 2})  # every recording contains steps and block ids


@dataclass(frozen=True)
class ParityComparison:
    """The scenarios that agreed with the recording, and the first scenario that did not."""

    agreed: list[Scenario]
    failure: ParityVerdict | None = None

    @property
    def suspects(self) -> list[int]:
        """The failing scenario's phases that no agreeing scenario needs, or all its phases if no such phase exists."""
        needed = phases_needed(self.failure.scenario) if self.failure else frozenset[int]()
        tried = {phase for scenario in self.agreed for phase in phases_needed(scenario)}
        return sorted(needed - tried or needed)


def phases_needed(scenario: Scenario) -> frozenset[int]:
    """Return the phases without which an engine would differ from the recording. Phase 6 is never one of these
    phases."""
    config, needed = scenario.line["config"], set(ALWAYS | scenario.electives)
    if config["policy"] == "priority" or any(step["preempted"] for step in scenario.steps):
        needed.add(3)
    if config["enable_prefix_caching"]:
        needed.add(4)
    # Without phase 5, the budget must cover whole prompts. A share that does not end with a sampled token is a chunk.
    if config["max_num_batched_tokens"] < config["max_model_len"] or any(
        share["id"] not in step["sampled"] for step in scenario.steps for share in step["scheduled"]
    ):
        needed.add(5)
    return frozenset(needed)


def comparable(scenarios: Iterable[Scenario], lineup: Lineup) -> list[Scenario]:
    """Return the scenarios that the lineup can run and that do not show a vLLM defect, fewest phases first."""
    present = {phase for phase in range(1, len(ALL_NAMES) + 1) if lineup[phase] != "absent"}
    plain = [one for one in scenarios if not one.defects and not one.has_gates]
    chosen = [one for one in plain if phases_needed(one) <= present]
    return sorted(chosen, key=lambda one: len(phases_needed(one)))


def compare_until_failure(scenarios: Iterable[Scenario], lineup: Lineup) -> ParityComparison:
    """Replay scenarios until one differs from its recording. Raises `NotImplementedError` for an unwritten phase."""
    agreed: list[Scenario] = []
    for scenario in scenarios:
        verdict = judge(scenario, lineup)
        if verdict.failed:
            return ParityComparison(agreed, verdict)
        agreed.append(scenario)
    return ParityComparison(agreed)
