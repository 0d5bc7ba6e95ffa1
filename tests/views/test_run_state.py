"""The state rebuilt from a trace alone equals the engine's, at every step of random workloads."""

import copy
import json
from pathlib import Path

import pytest

from course.parity.scenario import PUBLIC_TRACES, read_scenarios
from course.traces.recording import Recording, likely_block_size
from course.traces.run_state import RunState
from course.views.time_machine import time_machine
from course.views.time_machine.machine import states
from mini_vllm.config import SpeculativeConfig
from mini_vllm.core.step_record import StepRecord
from mini_vllm.engine.llm_engine import LLMEngine
from tests.engine.workloads import add, draft_half_right, make_engine, make_workload, small_config

TIGHT = {"num_gpu_blocks": 13, "max_num_batched_tokens": 10, "max_num_seqs": 4, "long_prefill_token_threshold": 6}
OBSERVED = Path(__file__).parents[2] / "labs" / "observed"


def play(seed: int, lineup: str = "solution:1-5", **settings: object) -> tuple[LLMEngine, list[dict[str, object]]]:
    """Run a workload, with an abort in it; return the engine's own state at the end of each step."""
    engine = make_engine(small_config(**(TIGHT | settings)), lineup, record=True)
    draft_half_right(engine)
    pending = make_workload(seed, 8)
    truth: list[dict[str, object]] = []
    for number in range(500):
        while pending and pending[0].step <= number:
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
    raise AssertionError("the workload has not ended")


def rebuilt(recording: Recording) -> list[dict[str, object]]:
    """Return the same from the records alone."""
    state = RunState(recording.info)
    out: list[dict[str, object]] = []
    for record in recording.steps:
        state.advance(record)
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


def without_detail(steps: list[StepRecord]) -> list[StepRecord]:
    bare = copy.deepcopy(steps)
    for record in bare:
        record["detail"] = {}
    return bare


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_the_state_from_the_trace_is_the_engines(seed: int, caching: bool, policy: str) -> None:
    engine, truth = play(seed, policy=policy, enable_prefix_caching=caching)
    recording = Recording.of(engine)
    assert rebuilt(recording) == truth
    bare = Recording(recording.info, without_detail(list(recording.steps)))
    if not caching:
        bare = Recording.from_steps(bare.steps)
    assert rebuilt(bare) == truth, "without the record's detail the rules give the same"


@pytest.mark.parametrize("seed", range(12))
def test_bare_records_give_the_pool_the_block_size_and_the_prompts(seed: int) -> None:
    engine, _ = play(seed)
    full = Recording.of(engine)
    bare = Recording.from_steps(json.loads(json.dumps(full.steps)), full.info.token_budget)
    ran = {share["id"] for record in full.steps for share in record["scheduled"]}
    known = {name: length for name, length in full.info.num_prompt_tokens.items() if name in ran}
    assert (bare.info.num_blocks, bare.info.block_size, bare.info.titles) == (12, 4, full.info.titles)
    assert {name: length for name, length in bare.info.num_prompt_tokens.items() if name in ran} == known


def test_the_block_of_rejected_drafts_does_not_make_blocks_look_smaller() -> None:
    """Blocks of 4: a share with two drafts takes a third block; both are rejected, and the next share ends at 8."""
    steps = copy.deepcopy(list(play(0)[0].recorder.steps[:2]))
    drafting, after = ({"id": "r0", "kind": "running", "new_blocks": [], "blocks": [1, 2, 3]} for _ in range(2))
    steps[0]["scheduled"] = [{**drafting, "computed": 6, "n": 3, "drafts": [7, 8]}]  # type: ignore[typeddict-item]
    steps[1]["scheduled"] = [{**after, "computed": 7, "n": 1}]  # type: ignore[typeddict-item]
    assert likely_block_size(steps) == 4


ELECTIVES: dict[str, dict[str, object]] = {
    "solution:1-5,solution:7": {"speculative_config": SpeculativeConfig("ngram", 4, adaptive=False)},
    "solution:1-5,solution:8": {"async_scheduling": True},
    "solution:1-5,solution:7-8": {
        "speculative_config": SpeculativeConfig("ngram", 3, adaptive=False),
        "async_scheduling": True,
    },
}


@pytest.mark.parametrize("lineup", ELECTIVES)
@pytest.mark.parametrize("seed", range(8))
def test_drafts_and_steps_in_flight_give_the_engines_state(seed: int, lineup: str) -> None:
    engine, truth = play(seed, lineup, **ELECTIVES[lineup])
    recording = Recording.of(engine)
    assert rebuilt(recording) == truth
    bare = Recording.from_steps(json.loads(json.dumps(recording.steps)))
    assert (bare.info.num_blocks, bare.info.block_size) == (12, 4)
    film = time_machine(recording)
    assert len(film) == len(recording.steps)
    for record, state in zip(recording.steps, states(recording), strict=True):
        for request_id, *_ in record["running_after"]:
            assert state.num_reached(request_id) <= state.num_tokens(request_id)


@pytest.mark.parametrize("lineup", ELECTIVES)
def test_drafts_do_not_count_as_computed_again_or_as_a_prompt(lineup: str) -> None:
    settings = {"num_gpu_blocks": 101, "max_num_batched_tokens": 40, "long_prefill_token_threshold": 0}
    engine, _ = play(1, lineup, enable_prefix_caching=False, **settings | ELECTIVES[lineup])
    recording, num_decodes = Recording.of(engine), 0
    for record, state in zip(recording.steps, states(recording), strict=True):
        assert state.num_recomputed_tokens == 0
        for share in record["scheduled"]:
            assert state.is_decode(share) == (share["computed"] >= recording.info.num_prompt_tokens[share["id"]])
            num_decodes += state.is_decode(share)
    assert num_decodes > 10


def test_ref_counts_are_those_of_the_recorded_steps() -> None:
    engine, _ = play(0)
    recording, state, seen = Recording.of(engine), None, 0
    state = RunState(recording.info)
    for record in recording.steps:
        state.advance(record)
        shared = {str(block): count for block, count in sorted(state.ref_counts().items()) if count > 1}
        assert shared == record["detail"]["shared"]
        seen += len(shared)
    assert seen > 0


def test_recorded_vllm_runs_without_detail_have_queues_of_the_right_length() -> None:
    scenarios = [s for s in read_scenarios(PUBLIC_TRACES / "random.jsonl.gz") if s.kind == "base"][:40]
    for scenario in scenarios:
        if scenario.defects:
            continue
        recording = Recording.of_scenario(scenario)
        state = RunState(recording.info)
        for record in recording.steps:
            state.advance(record)
            assert len(state.pool.free_queue) == record["free_after_update"], scenario.name


def test_named_scenarios_reconstruct_their_own_detail() -> None:
    for scenario in read_scenarios(PUBLIC_TRACES / "named.jsonl"):
        if scenario.electives or scenario.defects:
            continue
        recording = Recording.of_scenario(scenario)
        bare = Recording(recording.info, without_detail(list(recording.steps)))
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
