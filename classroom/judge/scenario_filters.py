"""Filters on the reference's trace, so that each scenario of a group shows what its title names."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from classroom.worker.scenario import EngineScenario, ScenarioRun
from mini_vllm.core.step_record import StepRecord

REFERENCE = "solution:1-5"
ScenarioFilter = Callable[[EngineScenario, Sequence[StepRecord]], object]


def preempts(scenario: EngineScenario, trace: Sequence[StepRecord]) -> object:
    return any(step["preempted"] for step in trace)


def hits(scenario: EngineScenario, trace: Sequence[StepRecord]) -> object:
    return any(row.get("hit") for step in trace for row in step["scheduled"])


def evicts(scenario: EngineScenario, trace: Sequence[StepRecord]) -> object:
    return hits(scenario, trace) and any(step["evicted"] for step in trace)


def victims_return_to_answers(scenario: EngineScenario, trace: Sequence[StepRecord]) -> object:
    """A resumed request hits blocks with its own output tokens."""
    prompts = {new.request_id: len(new.prompt_token_ids) for new in scenario.arrivals}
    resumed = [row for step in trace for row in step["scheduled"] if row["kind"] == "resumed"]
    return any(row.get("hit", 0) > prompts[row["id"]] for row in resumed)


def planned_victims(scenario: EngineScenario, trace: Sequence[StepRecord]) -> object:
    """A victim was planned in the same step already, which happens by priority only."""
    return any(returned for step in trace for _, _, returned in step["preempted"])


def returned_tokens_are_used(scenario: EngineScenario, trace: Sequence[StepRecord]) -> object:
    budget = scenario.config.max_num_batched_tokens
    returned = [(sum(tokens for _, _, tokens in step["preempted"]), step["total"]) for step in trace]
    return any(tokens and total + tokens > budget for tokens, total in returned)


def the_guard_decides(scenario: EngineScenario, trace: Sequence[StepRecord]) -> object:
    """Without the guard, or with one that admits only into an empty engine, the plans would differ."""
    unguarded = ScenarioRun(
        replace(scenario, config=replace(scenario.config, admission_guard=False)), REFERENCE
    ).trace()
    differs = [step["scheduled"] for step in unguarded] != [step["scheduled"] for step in trace]
    return differs and any(step["waiting_after"] and len(step["running_after"]) > 1 for step in trace)


def several_victims(scenario: EngineScenario, trace: Sequence[StepRecord]) -> object:
    """One request needed the memory of two others at once."""
    causes = (Counter(cause for _, cause, _ in step["preempted"]) for step in trace)
    return any(most > 1 for count in causes for most in count.values())


def waits(scenario: EngineScenario, trace: Sequence[StepRecord]) -> object:
    return sum(bool(step["waiting_after"]) for step in trace) > 2


def anything(scenario: EngineScenario, trace: Sequence[StepRecord]) -> object:
    return trace
