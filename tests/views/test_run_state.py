"""The state rebuilt only from a trace matches the engine's, at every step of random workloads; also tests its
sentences."""

import copy
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.config import Policy, SpeculativeConfig
from mini_vllm.core.step_record import StepRecord
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm_labs.pictures.parts import WIDTHS, sentence_lines
from mini_vllm_labs.pictures.time_machine.machine import states
from mini_vllm_labs.runs.parity.scenario import PUBLIC_TRACES, read_scenarios
from mini_vllm_labs.runs.traces.recording import Recording, likely_block_size
from mini_vllm_labs.runs.traces.sentences import describe_step, is_in_front
from mini_vllm_labs.runs.workloads.small_workload import SMALL_POOL, run_workload
from mini_vllm_labs.runs.workloads.small_workload import make_workload as small_workload
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from tests.engine.workloads import add, draft_half_right, make_engine, make_workload, small_config
from tests.views.runs import in_blocks_of_4

TIGHT = {"num_gpu_blocks": 13, "max_num_batched_tokens": 10, "max_num_seqs": 4, "long_prefill_token_threshold": 6}
OBSERVED = Path(__file__).parents[2] / "labs" / "observed"


def play(seed: int, lineup: str = "solution:1-5", **settings: object) -> tuple[LLMEngine, list[dict[str, object]]]:
    """Run a workload that contains an abort; return the engine's own state at the end of each step."""
    engine = make_engine(small_config(**(TIGHT | settings)), lineup, record=True)
    draft_half_right(engine)
    pending = make_workload(seed, 8)
    truth: list[dict[str, object]] = []
    for number in range(500):
        while pending and pending[0].arrival_time <= number:
            add(engine, pending.pop(0))
        if number == 5 + seed % 3 and engine.scheduler.running:
            engine.abort_request(engine.scheduler.running[0].request_id)
        if not pending and not engine.has_unfinished_requests():
            return engine, truth
        engine.step()
        scheduler = engine.scheduler
        truth.append(
            {
                "tables": {r.request_id: list(scheduler.kv.block_ids(r.request_id)) for r in scheduler.running},
                "free_queue": scheduler.kv.free_block_ids(),
                "cached": set(scheduler.prefix_cache.cached_blocks()),
                "computed": {r.request_id: r.num_computed_tokens for r in scheduler.running},
                "num_tokens": {r.request_id: r.num_tokens for r in scheduler.running},
            }
        )
    raise AssertionError("the workload did not finish")


def rebuilt(recording: Recording) -> list[dict[str, object]]:
    """Return the same states as `play`, but derived only from the records."""
    out: list[dict[str, object]] = []
    for record, state in zip(recording.steps, states(recording), strict=True):
        running = [request_id for request_id, *_ in record["running_after"]]
        out.append(
            {
                "tables": {i: state.tables_after_update()[i] for i in running},
                "free_queue": list(state.pool.free_queue),
                "cached": set(state.cached()),
                "computed": {i: state.computed[i] for i in running},
                "num_tokens": {i: state.num_tokens(i) for i in running},
            }
        )
    return out


def without_detail(steps: Sequence[StepRecord]) -> list[StepRecord]:
    return [{**record, "detail": {}} for record in steps]


DRAFTS = SpeculativeConfig("ngram", 4, adaptive=False)
SETTINGS: dict[str, tuple[str, dict[str, object]]] = {
    "fcfs": ("solution:1-5", {}),
    "priority": ("solution:1-5", {"policy": "priority"}),
    "without caching": ("solution:1-5", {"enable_prefix_caching": False}),
    "priority without caching": ("solution:1-5", {"policy": "priority", "enable_prefix_caching": False}),
    "drafts": ("solution:1-5,solution:7", {"speculative_config": DRAFTS}),
    "ahead": ("solution:1-5,solution:8", {"async_scheduling": True}),
    "drafts ahead": ("solution:1-5,solution:7-8", {"speculative_config": DRAFTS, "async_scheduling": True}),
}


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("name", SETTINGS)
def test_the_state_from_the_trace_is_the_engines(seed: int, name: str) -> None:
    lineup, settings = SETTINGS[name]
    engine, truth = play(seed, lineup, **settings)
    recording = Recording.of(engine)
    assert rebuilt(recording) == truth
    for record, state in zip(recording.steps, states(recording), strict=True):
        assert all(state.num_reached(i) <= state.num_tokens(i) for i, *_ in record["running_after"])
        if lineup == "solution:1-5":
            shared = {str(block): count for block, count in sorted(state.ref_counts().items()) if count > 1}
            assert shared == record["detail"]["shared"]
    filed = Recording.from_steps(json.loads(json.dumps(recording.steps)), recording.info.token_budget)
    assert (filed.info.num_blocks, filed.info.block_size, filed.info.titles) == (12, 4, recording.info.titles)
    if lineup == "solution:1-5":
        ran = {share["id"] for record in recording.steps for share in record["scheduled"]}
        for request_id in ran:
            assert filed.info.num_prompt_tokens[request_id] == recording.info.num_prompt_tokens[request_id]
        bare = Recording(recording.info, without_detail(recording.steps))
        if not settings.get("enable_prefix_caching", True):
            bare = Recording.from_steps(bare.steps)
        assert rebuilt(bare) == truth, "without the record's detail the rules give the same"


def test_the_block_of_rejected_drafts_does_not_make_blocks_look_smaller() -> None:
    """With blocks of 4, two drafts need a third block. Both are rejected, and the request's next step ends at 8
    tokens."""
    steps = copy.deepcopy(list(play(0)[0].recorder.steps[:2]))
    drafting, after = ({"id": "r0", "kind": "running", "new_blocks": [], "blocks": [1, 2, 3]} for _ in range(2))
    steps[0]["scheduled"] = [{**drafting, "computed": 6, "n": 3, "drafts": [7, 8]}]  # type: ignore[typeddict-item]
    steps[1]["scheduled"] = [{**after, "computed": 7, "n": 1}]  # type: ignore[typeddict-item]
    assert likely_block_size(steps) == 4


@pytest.mark.parametrize("name", ["drafts", "ahead", "drafts ahead"])
def test_drafts_do_not_count_as_computed_again_or_as_a_prompt(name: str) -> None:
    lineup, settings = SETTINGS[name]
    roomy = {"num_gpu_blocks": 101, "max_num_batched_tokens": 40, "long_prefill_token_threshold": 0}
    engine, _ = play(1, lineup, enable_prefix_caching=False, **roomy | settings)
    recording, num_decodes = Recording.of(engine), 0
    for record, state in zip(recording.steps, states(recording), strict=True):
        assert state.num_recomputed_tokens == 0
        for share in record["scheduled"]:
            assert state.is_decode(share) == (share["computed"] >= recording.info.num_prompt_tokens[share["id"]])
            num_decodes += state.is_decode(share)
    assert num_decodes > 10


def test_recorded_vllm_runs_without_detail_have_queues_of_the_right_length() -> None:
    scenarios = [s for s in read_scenarios(PUBLIC_TRACES / "random.jsonl.gz") if s.kind == "base"][:40]
    for recording in (Recording.of_scenario(scenario) for scenario in scenarios if not scenario.defects):
        for record, state in zip(recording.steps, states(recording), strict=True):
            assert len(state.pool.free_queue) == record["free_after_update"]


def test_named_scenarios_reconstruct_their_own_detail() -> None:
    for scenario in read_scenarios(PUBLIC_TRACES / "named.jsonl"):
        if scenario.electives or scenario.defects:
            continue
        recording = Recording.of_scenario(scenario)
        bare = Recording(recording.info, without_detail(recording.steps))
        for step, (record, state) in enumerate(zip(recording.steps, rebuilt(bare), strict=True)):
            assert state["free_queue"] == record["detail"]["free_queue"], (scenario.name, step)
            assert state["cached"] == set(record["detail"]["cached"]), (scenario.name, step)


def test_every_kind_of_trace_file_is_read() -> None:
    all_phases = Recording.read(OBSERVED / "all_phases.jsonl")
    assert (all_phases.info.num_blocks, all_phases.info.block_size, all_phases.info.token_budget) == (20, 4, 24)
    alone = Recording.read(OBSERVED / "phase_1_alone.jsonl")
    assert alone.info.block_size == 1
    scenario = next(read_scenarios(PUBLIC_TRACES / "named.jsonl"))
    assert Recording.read(PUBLIC_TRACES / "named.jsonl", scenario.name).steps == scenario.steps


def test_without_a_trace_the_error_explains_how_to_record_one() -> None:
    with pytest.raises(ValueError, match="record=True"):
        Recording.of(make_engine(small_config()))
    with pytest.raises(ValueError, match="at least one step"):
        Recording.from_steps([])


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_a_victim_waits_in_front_or_at_its_place(policy: Policy) -> None:
    """FCFS puts a victim at the front; under priority, a more urgent request may wait ahead of it."""
    config, places = replace(SMALL_POOL, policy=policy), set()
    for seed in range(40):
        records = run_workload(small_workload(seed, 10), config, parse_lineup("solution:1-5"))
        for record in records:
            for victim in [victim for victim, cause, _ in record["preempted"] if victim != cause][:1]:
                places.add(is_in_front(record, victim))
                where = "at the front of the queue" if is_in_front(record, victim) else "at its place in the queue"
                assert where in describe_step(Recording.from_steps(records).state(record["step"]))
    assert places == ({True} if policy == "fcfs" else {True, False})


@pytest.mark.parametrize("width", WIDTHS)
def test_no_sentence_of_the_recordings_is_cut(width: float) -> None:
    for scenario in read_scenarios(PUBLIC_TRACES / "named.jsonl"):
        if not scenario.electives:
            for state in states(Recording.of_scenario(scenario)):
                sentence = describe_step(state)
                assert " ".join(sentence_lines(sentence, width)) == sentence, scenario.name


@pytest.mark.parametrize(
    ("step", "settings", "why"),
    [
        (1, {"max_num_seqs": 1}, "B waits: 1 of 1 seats are taken."),
        (0, {"max_num_batched_tokens": 4}, "B waits: all 4 tokens of the step are used."),
        (0, {"num_blocks": 4, "lengths": (8, 12)}, "B waits: its 12 tokens fill 3 blocks, and 2 of 4 are free."),
        (0, {"phases": 4, "lengths": (30, 12)}, "B waits: its 12 tokens are more than the 10 left of the budget."),
        (0, {}, ""),
        (0, {"max_num_batched_tokens": 9}, "The step computes 8 of at most 9 tokens, and takes 2 blocks."),
    ],
)
def test_a_sentence_says_why_a_request_waits(step: int, settings: dict[str, Any], why: str) -> None:
    lengths, phases = settings.pop("lengths", (4, 4)), settings.pop("phases", 5)
    requests = [TimedRequest(0, name, [ord(name)] * length, 3) for name, length in zip("AB", lengths, strict=True)]
    sentence = describe_step(in_blocks_of_4(requests, settings.pop("num_blocks", 20), phases, **settings).state(step))
    assert (why in sentence) if why else ("waits" not in sentence)
