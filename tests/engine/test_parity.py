"""Our decisions match vLLM's, block id for block id, on all recordings in scope, even without some phases."""

import copy
import gc
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from labs.phase2_block_pool import starter
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.core.request import Request
from mini_vllm_labs.runs.parity.by_phase import comparable, compare_until_failure, phases_needed
from mini_vllm_labs.runs.parity.replay import ReplayDifference, compare, run_free_of_defects
from mini_vllm_labs.runs.parity.scenario import PUBLIC_FILES, Scenario, output_token, prompt_token, read_scenarios
from mini_vllm_labs.runs.parity.verdict import KNOWN_DEFECTS
from solutions import phase4_prefix_cache
from solutions.phase2_block_pool import PagedKVCacheManager

REFERENCE = parse_lineup("solution:1-5,solution:7-9,solution:11-12")


@pytest.fixture(scope="module")
def scenarios_of_file() -> Iterator[dict[str, list[Scenario]]]:
    """All recordings, loaded only for this file: they take a gigabyte, which the garbage collector would traverse for
    seconds."""
    gc.disable()
    try:
        found = {file.name: list(read_scenarios(file)) for file in PUBLIC_FILES}
    finally:
        gc.enable()
    gc.freeze()
    yield found
    gc.unfreeze()


@pytest.fixture(scope="module")
def scenarios(scenarios_of_file: dict[str, list[Scenario]]) -> list[Scenario]:
    return [scenario for found in scenarios_of_file.values() for scenario in found]


@pytest.fixture(scope="module")
def of_the_course(scenarios_of_file: dict[str, list[Scenario]]) -> list[Scenario]:
    return scenarios_of_file["named.jsonl"] + scenarios_of_file["random.jsonl.gz"]


@pytest.fixture(scope="module")
def to_match(scenarios: list[Scenario]) -> list[Scenario]:
    return [scenario for scenario in scenarios if not scenario.defects]


def altered(scenario: Scenario, alter: Callable[[dict[str, Any]], None]) -> Scenario:
    line = copy.deepcopy(scenario.line)
    alter(line["trace"])
    return Scenario(line)


def test_recordings_of_absent_electives_are_reported_with_a_reason(scenarios: list[Scenario]) -> None:
    assert len(scenarios) == 64 + 246 + 400 + 320
    assert len({scenario.name for scenario in scenarios}) == len(scenarios)
    six = parse_lineup("solution")
    assert Counter(s.out_of_scope(six) for s in scenarios if s.kind != "named") == {
        None: 300 + 60,
        "phase 7 (speculative decoding)": 100,
        "phase 8 (async scheduling)": 246,
        "phase 9 (structured output)": 40,
        "phase 11 (admission gates)": 40 + 60 + 40,
        "phase 12 (sliding windows)": 80,
    }
    for scenario in scenarios:
        assert scenario.out_of_scope(REFERENCE) is None
        config, reason = scenario.line["config"], scenario.out_of_scope(six)
        uses_elective = (
            config["async_scheduling"] or config["spec"] or {"grammar", "lora", "encoder", "window"} & config.keys()
        )
        assert (reason is None) == (not uses_elective)


@pytest.mark.parametrize(
    ("kind", "number"),
    [
        ("named", 62),
        ("base", 279),
        ("spec", 91),
        ("async", 92),
        ("async_spec", 110),
        ("grammar", 18),
        ("lora", 21),
        ("encoder", 55),
        ("remote", 42),
        ("window", 38),
        ("hybrid", 37),
        ("gates", 18),
    ],
)
def test_every_recording_is_matched_block_by_block(to_match: list[Scenario], kind: str, number: int) -> None:
    chosen = [scenario for scenario in to_match if scenario.kind == kind]
    assert len(chosen) == number
    differences = {s.name: str(difference) for s in chosen if (difference := compare(s, REFERENCE))}
    assert differences == {}


def test_recordings_with_a_defect_run_without_it_to_the_end(scenarios: list[Scenario]) -> None:
    with_defects = [scenario for scenario in scenarios if scenario.defects]
    assert {defect for scenario in with_defects for defect in scenario.defects} == KNOWN_DEFECTS["0.13.0"]
    for scenario in with_defects:
        run_free_of_defects(scenario, REFERENCE)
        assert compare(scenario, REFERENCE) is not None, "this recording shows no defect"


def test_an_engine_with_the_defect_of_the_recording_is_caught(
    scenarios: list[Scenario], monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = next(s for s in scenarios if s.name == "priority_victim_leaves_uncomputed_cached_blocks")
    monkeypatch.setattr(phase4_prefix_cache.HashPrefixCache, "drop_uncomputed", lambda *_: None)
    assert compare(scenario, REFERENCE) is None, "with the defect our decisions equal the recording's"


@pytest.mark.parametrize(
    ("kind", "field", "alter"),
    [
        ("named", "scheduled", lambda step: step["scheduled"][0].update(n=99)),
        ("named", "scheduled", lambda step: step["scheduled"][0]["blocks"].append(9)),
        ("named", "total", lambda step: step.update(total=-1)),
        ("named", "preempted", lambda step: step["preempted"].append(["A", "B", 0])),
        ("named", "evicted", lambda step: step["evicted"].append(1)),
        ("named", "finished_sent", lambda step: step["finished_sent"].append("Z")),
        ("named", "free_after_schedule", lambda step: step.update(free_after_schedule=-1)),
        ("named", "output", lambda step: step["output"].pop()),
        ("named", "finished", lambda step: step["finished"].append(["Z", "stop", None])),
        ("named", "free_after_update", lambda step: step.update(free_after_update=-1)),
        ("named", "running_after", lambda step: step["running_after"].append(["Z", 1, 1, 0])),
        ("named", "waiting_after", lambda step: step["waiting_after"].append("Z")),
        ("named", "detail.free_queue", lambda step: step["detail"]["free_queue"].reverse()),
        ("named", "detail.cached", lambda step: step["detail"]["cached"].append(77)),
        ("named", "detail.shared", lambda step: step["detail"]["shared"].update({"77": 2})),
        ("remote", "loading", lambda step: step["loading"].append(["r0", 8, [1]])),
        ("remote", "transfers", lambda step: step.update(transfers={"received": ["Z"], "sent": [], "invalid": []})),
        ("remote", "held_after", lambda step: step["held_after"].append(["Z", "WAITING_FOR_FSM", 0])),
        ("encoder", "encodings_freed", lambda step: step["encodings_freed"].append("image9")),
        ("encoder", "encoder_after", lambda step: step["encoder_after"].update(free=-1)),
        ("encoder", "scheduled", lambda step: step["scheduled"][0].update(encode=[7])),
        ("hybrid", "scheduled", lambda step: step["scheduled"][0]["sliding_blocks"].append(9)),
    ],
)
def test_an_altered_recording_is_reported_with_its_step_and_field(
    to_match: list[Scenario], kind: str, field: str, alter: Callable[[dict[str, Any]], None]
) -> None:
    scenario = next(one for one in to_match if one.kind == kind)
    number = next(i for i, step in enumerate(scenario.steps) if i > 0 and step["output"])
    difference = compare(altered(scenario, lambda trace: alter(trace["steps"][number])), REFERENCE)
    assert difference is not None
    assert (difference.step, difference.field) == (number, field)
    assert difference.recorded != difference.ours
    assert str(difference).startswith(f"step {number}, {field}\n  recorded  ")


def test_an_altered_summary_is_reported_after_the_last_step(to_match: list[Scenario]) -> None:
    scenario = to_match[0]

    def alter(trace: dict[str, Any]) -> None:
        next(iter(trace["requests"].values()))["preemptions"] += 1

    difference = compare(altered(scenario, alter), REFERENCE)
    assert isinstance(difference, ReplayDifference)
    assert (difference.step, difference.field) == (len(scenario.steps), "requests")


def test_the_tokens_of_the_recordings_follow_their_description(scenarios: list[Scenario]) -> None:
    assert [prompt_token("A", index) for index in range(4)] == [354, 460, 902, 324]
    assert [output_token("A", index) for index in range(4)] == [495, 201, 707, 141]
    for scenario in scenarios:
        for request_id, request in scenario.line["requests"].items():
            assert len(scenario.prompt(request_id)) == request["prompt_len"]


def test_a_line_that_is_not_a_trace_is_refused_with_its_number(tmp_path: Any) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text('\n{"name": "x", "kind": "named"}\n', encoding="utf-8")
    with pytest.raises(
        ValueError, match=r"line 2: not a valid trace: config, events, max_steps, requests, trace missing"
    ):
        list(read_scenarios(path))
    path.write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match="line 1: not a valid trace: "):
        list(read_scenarios(path))


@pytest.mark.parametrize(
    ("phases", "num_scenarios"),
    [
        ("solution:1-2", 13),
        ("solution:1-3", 37),
        ("solution:1-4", 69),
        ("solution:1-5", 232),
        ("solution:1-2,solution:4", 27),
        ("solution:1-2,solution:5", 28),
        ("solution:1-2,solution:4-5", 64),
        ("solution:1-3,solution:5", 98),
    ],
)
def test_the_phases_that_are_there_decide_as_recorded(
    of_the_course: list[Scenario], phases: str, num_scenarios: int
) -> None:
    lineup = parse_lineup(phases)
    chosen = comparable(of_the_course, lineup)
    result = compare_until_failure(chosen, lineup)
    assert result.failure is None, result.failure
    assert len(result.agreed) == num_scenarios


def test_each_kind_of_need_is_recorded(of_the_course: list[Scenario]) -> None:
    counts = Counter(phase for scenario in of_the_course for phase in phases_needed(scenario))
    assert min(counts[phase] for phase in range(1, 6)) > 100
    assert (counts[7], counts[8]) == (29 + 7, 30 + 7)


class HeadFirst(PagedKVCacheManager):
    def free(self, request: Request, num_computed_tokens: int) -> None:
        self.req_to_blocks.get(request.request_id, []).reverse()
        super().free(request, num_computed_tokens)


def test_the_first_difference_is_in_the_fewest_phases(
    of_the_course: list[Scenario], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starter, "PagedKVCacheManager", HeadFirst)
    lineup = parse_lineup("solution:1,starter:2,solution:3-5")
    result = compare_until_failure(comparable(of_the_course, lineup), lineup)
    assert result.failure is not None
    assert phases_needed(result.failure.scenario) == {1, 2}
    assert result.suspects == [1, 2]
