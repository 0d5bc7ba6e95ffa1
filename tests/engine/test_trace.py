"""A recorded engine writes the documented format, and recording changes no decision."""

import re
from typing import Any

import pytest

from mini_vllm.core.step_record import StepRecord
from mini_vllm_labs.runs.parity.scenario import PUBLIC_TRACES
from tests.engine.runners import install_faults, install_spy
from tests.engine.workloads import add, drain, make_engine, make_workload, run_workload, small_config, true_tokens

TIGHT = {"num_gpu_blocks": 13, "max_num_batched_tokens": 10, "max_num_seqs": 4}


def documented_fields(heading: str) -> set[str]:
    """Return the names in the first column of the table below `heading` in the format's README."""
    text = (PUBLIC_TRACES / "README.md").read_text(encoding="utf-8").split(heading, 1)[1]
    table = re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)
    assert table is not None
    return {name for row in table[0].splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])}


def record(seed: int, **settings: Any) -> list[StepRecord]:
    engine = make_engine(small_config(**(TIGHT | settings)), record=True)
    run_workload(engine, make_workload(seed))
    return engine.recorder.steps


def test_every_step_has_the_documented_fields_and_no_others() -> None:
    per_step = documented_fields("These are the fields of one step.")
    per_entry = documented_fields("An entry of `scheduled` has these fields:") - {"drafts"}
    steps = [step for seed in range(5) for step in record(seed)]
    assert {field for step in steps for field in step} == per_step
    entries = [entry for step in steps for entry in step["scheduled"]]
    assert all(set(entry) == per_entry - ({"hit"} if entry["kind"] == "running" else set()) for entry in entries)
    assert {entry["kind"] for entry in entries} == {"running", "new", "resumed"}


def test_arrivals_aborts_and_ends_are_recorded_in_their_step() -> None:
    engine = make_engine(small_config(), record=True)
    arrivals = make_workload(1)
    for arrival in arrivals[:2]:
        add(engine, arrival)
    engine.step()
    engine.abort_request("r1")
    add(engine, arrivals[2])
    drain(engine)
    first, second, *_ = engine.recorder.steps
    assert (first["added"], first["aborted"], first["finished_sent"]) == (["r0", "r1"], [], [])
    assert (second["added"], second["aborted"]) == (["r2"], ["r1"])
    assert "r1" in second["finished_sent"]
    ended = [name for step in engine.recorder.steps for name, _, _ in step["finished"]]
    assert sorted(ended) == ["r0", "r2"]


def test_an_abort_during_the_forward_pass_is_recorded_before_the_update() -> None:
    engine = make_engine(small_config(), record=True)
    engine.add_request("r", [1, 2, 3])
    engine.add_request("other", [1, 2, 3])
    install_spy(engine).before_batch = lambda: engine.abort_request("r")
    (output,) = engine.step()
    (step,) = engine.recorder.steps
    assert output.request_id == "other"
    assert (step["aborted"], step["aborted_before_update"]) == ([], ["r"])
    assert [name for name, _ in step["output"]] == ["other"]


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.parametrize("seed", range(10))
def test_recording_changes_no_decision(seed: int, policy: str) -> None:
    batches = []
    for record_it in (False, True):
        engine = make_engine(small_config(policy=policy, **TIGHT), record=record_it)
        spy = install_spy(engine)
        assert run_workload(engine, make_workload(seed)).token_ids == true_tokens(make_workload(seed))
        batches.append(spy.batches)
    assert batches[0] == batches[1]


def test_a_step_that_failed_is_not_in_the_trace_and_its_arrivals_and_aborts_are_in_the_next() -> None:
    engine = make_engine(small_config(), record=True)
    faulty = install_faults(engine)
    for name in ("a", "b"):
        engine.add_request(name, [1, 2, 3])
    engine.step()
    engine.add_request("c", [4])
    engine.abort_request("b")
    faulty.fault = "after"
    with pytest.raises(OSError, match="injected"):
        engine.step()
    engine.step()
    first, second = engine.recorder.steps
    assert first["added"] == ["a", "b"]
    assert (second["step"], second["added"], second["aborted"]) == (1, ["c"], ["b"])
    assert second["finished_sent"] == ["b"], "the failed step did not report it"


def test_an_abort_during_a_forward_pass_that_fails_is_not_lost_from_the_trace() -> None:
    engine = make_engine(small_config(), record=True)
    faulty = install_faults(engine)
    spy = install_spy(engine)
    for name in ("a", "b"):
        engine.add_request(name, [1, 2, 3])
    spy.before_batch = lambda: engine.abort_request("b")
    faulty.fault = "before"
    with pytest.raises(OSError, match="injected"):
        engine.step()
    spy.before_batch = None
    engine.step()
    (step,) = engine.recorder.steps
    assert (step["added"], step["aborted"]) == (["a", "b"], ["b"])
