"""An engine that runs for days keeps its last steps, which are the same as in the complete recording."""

import pickle
from unittest.mock import Mock

import pytest

from mini_vllm.sampling_params import SamplingParams
from mini_vllm_labs.runs.traces.run_state import RunState
from mini_vllm_labs.serving.live.drawing.live_run import LiveRun
from mini_vllm_labs.serving.live.packed_steps import MAX_STEPS, STEPS_PER_CHUNK, StepChunks
from mini_vllm_labs.serving.live.recent_steps import MAX_BILLS, MAX_WAITING_NAMED, facts_of
from tests.serving.page.runs import Watched

DECISIONS = (
    "added",
    "aborted",
    "total",
    "preempted",
    "evicted",
    "output",
    "finished",
    "running_after",
    "waiting_after",
)


def states_agree(watched: Watched, run: LiveRun) -> int:
    recording, num_compared = watched.recording, 0
    whole = RunState(recording.info)
    for record in recording.steps:
        whole.advance(record)
        step = record["step"]
        if step < run.oldest:
            continue
        num_compared += 1
        kept = run.state(step)
        assert kept.record is not None
        for name in DECISIONS:
            assert kept.record[name] == record[name], (step, name)  # type: ignore[literal-required]
        for mine, theirs in zip(kept.record["scheduled"], record["scheduled"], strict=True):
            assert mine == theirs, step
        assert kept.tables == whole.tables, step
        pools = [(state.pool.free_queue, state.pool.cached, state.pool.taken) for state in (kept, whole)]
        assert pools[0] == pools[1], step
        assert {i: kept.num_reached(i) for i in kept.tables} == {i: whole.num_reached(i) for i in whole.tables}, step
    return num_compared


def test_every_kept_step_is_what_the_complete_recorder_has_even_after_falling_behind() -> None:
    watched = Watched.build()
    watched.run(30)
    late = watched.live_run()
    watched.run(MAX_STEPS + 270)
    for chunk in watched.recent.chunks.since(late.newest + 1):
        late.feed(chunk)
    assert watched.recording.state(len(watched.recording.steps) - 1).num_preemptions > 20, "the workload is crowded"
    for run in (watched.live_run(), late):
        assert run.oldest == watched.recent.chunks.oldest
        assert states_agree(watched, run) >= MAX_STEPS


def test_steps_that_are_planned_ahead_with_drafts_are_kept_alike() -> None:
    watched = Watched.ahead()
    for _ in watched.steps(300):
        watched.recent.want_pool()
    run = watched.live_run()
    assert states_agree(watched, run) > 200
    assert run.totals[run.newest].drafts > run.totals[run.newest].accepted > 0


def test_a_run_can_be_followed_step_by_step_and_looked_back_at_meanwhile() -> None:
    watched = Watched.build()
    run, following = LiveRun(facts_of(watched.engine)), 0
    for _ in watched.steps(260):
        watched.recent.want_pool()
        for chunk in watched.recent.chunks.since(following):
            run.feed(chunk)
        following = watched.recent.chunks.num_steps
        record = run.state(max(run.oldest, run.newest - 40)).record
        assert record is not None
        assert record["step"] == max(0, run.newest - 40)
    assert states_agree(watched, run) == following


def test_memory_is_bounded() -> None:
    chunks = StepChunks()
    for step in range(10 * MAX_STEPS):
        if chunks.needs_keyframe:
            chunks.begin(b"state")
        chunks.append(b"step")
        kept = chunks.num_steps - chunks.oldest
        assert min(step + 1, MAX_STEPS) <= kept <= MAX_STEPS + STEPS_PER_CHUNK
    watched = Watched.build()
    watched.run(2000)
    run = watched.live_run()
    assert len(run.info.titles) < 0.2 * 1.5 * 1100, "requests that ended long ago are forgotten"
    assert max(run.info.numbers.values()) < 100, "letters are given again"
    assert len(run.state(run.newest).finished) <= len(run.info.titles)


def test_a_step_that_fails_begins_a_chunk_with_what_the_engine_has_then(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched.build()
    watched.run(60)
    with monkeypatch.context() as patched:
        patched.setattr(watched.engine.runner, "execute_model", Mock(side_effect=RuntimeError("no forward pass")))
        with pytest.raises(RuntimeError, match="no forward pass"):
            watched.engine.step()
    watched.run(40)
    run = watched.live_run()
    newest = run.state(run.newest)
    scheduler = watched.engine.scheduler
    assert newest.pool.free_queue == scheduler.kv.free_block_ids()
    tables = {r.request_id: scheduler.kv.block_ids(r.request_id) for r in scheduler.running}
    assert newest.tables_after_update() == tables
    assert newest.record is not None
    assert newest.record["waiting_after"] == [r.request_id for r in scheduler.waiting]


def test_a_long_waiting_queue_costs_a_step_nothing() -> None:
    watched = Watched.build()
    for _ in range(20 * MAX_WAITING_NAMED):
        watched.add()
    watched.engine.step()
    watched.engine.step()
    first, second = watched.recent.chunks.since(0)[0].steps
    assert len(second) < 10_000 < len(first), "the second step names only the first that wait"
    run = watched.live_run()
    assert states_agree(watched, run) == 2, "and yet it is known which requests wait"
    assert len(pickle.loads(second).record["waiting_after"]) == MAX_WAITING_NAMED


def test_a_bill_says_what_a_request_has_cost() -> None:
    watched = Watched.build()
    engine, bills = watched.engine, watched.recent.bills
    for name in ("one", "two"):
        engine.add_request(name, list(range(20)), SamplingParams(max_tokens=9, ignore_eos=True))
        while engine.has_unfinished_requests():
            engine.step()
    one, two = bills["one"], bills["two"]
    # The 20 prompt tokens and the first 8 of the 9 generated tokens have slots: 28 slots in blocks of 8.
    assert (one.num_blocks, one.num_steps, one.num_output_tokens, one.num_cached_tokens) == (4, 9, 9, 0)
    assert (two.num_prompt_tokens, two.num_cached_tokens, two.num_waited, two.num_preemptions) == (20, 16, 0, 0)


def test_bills_count_waiting_and_preemptions_and_are_bounded() -> None:
    watched = Watched.build()
    watched.run(600)
    bills = list(watched.recent.bills.values())
    assert max(bill.num_waited for bill in bills) > 5
    preempted = sum(bill.num_preemptions for bill in bills)
    assert 0 < preempted <= watched.recording.state(len(watched.recording.steps) - 1).num_preemptions
    assert watched.recent.unfinished.keys() == watched.engine.scheduler.requests.keys()
    first = next(iter(watched.recent.bills))
    for number in range(MAX_BILLS):
        watched.engine.add_request(f"r{number}", [1], SamplingParams())
        watched.engine.abort_request(f"r{number}")
    assert len(watched.recent.bills) == MAX_BILLS
    assert first not in watched.recent.bills
    assert "r0" in watched.recent.bills
