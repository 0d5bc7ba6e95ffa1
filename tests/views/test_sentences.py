"""The sentences of a step: where a victim waits, and that all of it is shown."""

from dataclasses import replace

import pytest

from course.parity.scenario import PUBLIC_TRACES, read_scenarios
from course.traces.recording import Recording
from course.traces.sentences import describe_step, is_in_front
from course.views.parts import WIDTHS, sentence_lines
from course.views.time_machine.machine import states
from course.workloads.small_workload import SMALL_POOL, make_workload, run_workload
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.config import Policy
from mini_vllm.core.step_record import StepRecord


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_a_victim_waits_in_front_or_at_its_place(policy: Policy) -> None:
    """FCFS puts a victim in front; by priority a more urgent request may wait before it."""
    config = replace(SMALL_POOL, policy=policy)
    places: set[bool] = set()
    for seed in range(40):
        records = run_workload(make_workload(seed, 10), config, parse_lineup("solution:1-5"))
        recording = Recording.from_steps(records)
        places |= {names_the_place(recording, record) for record in records if others_victims(record)}
    assert places == ({True} if policy == "fcfs" else {True, False})


def others_victims(record: StepRecord) -> list[str]:
    return [victim for victim, cause, _ in record["preempted"] if victim != cause]


def names_the_place(recording: Recording, record: StepRecord) -> bool:
    """Return whether a step's only victim waits in front, and check that the sentence agrees."""
    victim = others_victims(record)[0]
    in_front = is_in_front(record, victim)
    sentence = describe_step(recording.state(record["step"]))
    assert ("at the front of the queue" if in_front else "at its place in the queue") in sentence
    return in_front


@pytest.mark.parametrize("width", WIDTHS)
def test_no_sentence_of_the_recordings_is_cut(width: float) -> None:
    for scenario in read_scenarios(PUBLIC_TRACES / "named.jsonl"):
        if not scenario.electives:
            for state in states(Recording.of_scenario(scenario)):
                sentence = describe_step(state)
                assert " ".join(sentence_lines(sentence, width)) == sentence, scenario.name
