"""A failing runner costs only one step; a stall raises an error instead of hanging."""

from collections.abc import Callable, Iterator
from typing import Any, get_args

import numpy as np
import pytest
import torch

from mini_vllm.core.invariants import check_drained, check_state
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import ModelRunnerOutput, ScheduledRequest
from mini_vllm.engine.errors import RunnerError, StalledError
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.engine.runner_answer import checked_answer
from mini_vllm.sampling_params import SamplingParams
from tests.engine.runners import RAISES, Fault, SpyRunner, install_faults
from tests.engine.snapshots import MemoryCheck
from tests.engine.workloads import add, drain, expect, make_engine, make_workload, small_config, true_tokens

FAULTS = [fault for fault in get_args(Fault) if fault in RAISES]
NAMES = ["A", "B", "C", "D"]
TIGHT: dict[str, Any] = {"num_gpu_blocks": 13, "max_num_batched_tokens": 10, "long_prefill_token_threshold": 6}


def run_with_faults(engine: LLMEngine, seed: int, fault: Fault, every: int) -> dict[str, list[int]]:
    faulty = install_faults(engine)
    spy = SpyRunner(faulty)
    engine.runner = spy
    memory = MemoryCheck(engine, faulty.inner)
    spy.before_batch = memory.note_hashes
    pending = make_workload(seed)
    finished: dict[str, list[int]] = {}
    number = 0
    while pending or engine.has_unfinished_requests():
        while pending and pending[0].arrival_time <= number:
            add(engine, pending.pop(0))
        number += 1
        assert number < 2000, "the workload does not end"
        faulty.fault, faulty.fired = (fault if number % every == 0 else None), None
        try:
            finished |= {o.request_id: o.outputs[0].token_ids for o in engine.step() if o.finished}
        except RAISES[fault]:
            check_state(engine.scheduler, engine.config.policy)
            memory.check()
            requests = engine.scheduler.requests
            assert all(requests[row.request_id].status is RequestStatus.PREEMPTED for row in spy.batches[-1])
        else:
            assert faulty.fired is None, f"the fault {fault!r} was swallowed"
    check_drained(engine.scheduler)
    return finished


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize(
    ("lineup", "settings"),
    [
        *((f"solution:{phases}", {}) for phases in ("1", "1-2", "1,solution:5", "1-2,solution:4")),
        *(("solution:1-5", TIGHT | {"policy": policy}) for policy in ("fcfs", "priority")),
    ],
)
def test_a_failed_step_can_be_repeated_without_changing_the_tokens(
    lineup: str, settings: dict[str, Any], fault: Fault
) -> None:
    for seed in range(12):
        engine = make_engine(small_config(max_num_seqs=4, **settings), lineup, record=seed % 2 == 0)
        assert run_with_faults(engine, seed, fault, every=3 + seed % 2) == true_tokens(make_workload(seed)), seed


def test_a_failed_step_keeps_the_order_of_arrival_when_a_request_was_skipped() -> None:
    """Without preemption B gets no block and is skipped while A and C are planned; then the runner fails."""
    engine = make_engine(small_config(num_gpu_blocks=7, max_num_seqs=3), "solution:1-2")
    for name, num_prompt, max_tokens in (("A", 5, 2), ("B", 8, 8), ("C", 5, 4)):
        engine.add_request(name, list(range(num_prompt)), SamplingParams(max_tokens=max_tokens))
    faulty = install_faults(engine)
    engine.step()
    faulty.fault = "before"
    with pytest.raises(OSError, match="injected"):
        engine.step()
    check_state(engine.scheduler)
    outputs = drain(engine)
    assert outputs["B"].outputs[0].token_ids == expect(range(8), SamplingParams(max_tokens=8)).token_ids


def test_a_request_that_ended_in_an_undone_update_returns_to_its_place() -> None:
    engine = make_engine(small_config())
    for name in NAMES:
        engine.add_request(name, [1, 2, 3], SamplingParams(max_tokens=1 + (name != "B")))
    scheduler = engine.scheduler
    step = scheduler.schedule()
    scheduler.start_step(step)
    scheduler.update_from_output(step, {name: [7] for name in NAMES})
    assert list(scheduler.requests) == ["A", "C", "D"]
    scheduler.take_back_update()
    assert list(scheduler.requests) == NAMES
    assert scheduler.finished_req_ids == set()
    assert [request.num_output_tokens for request in scheduler.requests.values()] == [0] * 4


class NotWalked(dict[str, Request]):
    """Requests that can be looked up; iterating over all of them raises an error."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("a step iterates over all requests, although most of them are waiting")

    keys = values = items = copy = __iter__  # type: ignore[assignment]


def test_a_step_takes_no_longer_if_more_requests_wait() -> None:
    engine = make_engine(small_config(max_num_seqs=2, check_invariants=False))
    for name in NAMES:
        engine.add_request(name, [1, 2, 3], SamplingParams(max_tokens=3))
    engine.scheduler.requests = NotWalked(engine.scheduler.requests)
    ended = [output.request_id for _ in range(3) for output in engine.step() if output.finished]
    assert ended == ["A", "B"]


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("missing", r"the runner returned tokens for \[\], but tokens for \['r'\] were expected"),
        ("extra", r"the runner returned tokens for \['no-such-request', 'r'\], but tokens for \['r'\] were expected"),
        ("range", r"the runner returned the tokens \[1000\] for r, but it must return one token id"),
        ("float", r"the runner returned the tokens \[1.0\] for r, but it must return one token id, of type int"),
        ("two", r"the runner returned the tokens \[1, 2\] for r, but it must return one token id"),
        ("both", r"\br\b"),
    ],
)
def test_a_wrong_output_raises_an_error_with_the_expected_requests(fault: Fault, message: str) -> None:
    engine = make_engine(small_config())
    install_faults(engine).fault = fault
    engine.add_request("r", [1, 2, 3])
    with pytest.raises(RunnerError, match=message):
        engine.step()


@pytest.mark.parametrize("whole", [np.int64, np.uint32, torch.tensor])
def test_integers_of_numpy_and_torch_become_ints(whole: Callable[[int], Any]) -> None:
    batch = [ScheduledRequest(Request("r", [1, 2]), 0, 2, [1], needs_token=True)]
    answer = ModelRunnerOutput({"r": [whole(7)]})
    tokens = checked_answer(batch, answer, vocab_size=8).sampled_token_ids["r"]
    assert tokens == [7]
    assert type(tokens[0]) is int


def test_the_trace_of_a_step_with_unusable_logits_names_the_requests_that_ended() -> None:
    engine = make_engine(small_config(), record=True)
    install_faults(engine).fault = "logits"
    engine.add_request("bad", [1, 2, 3])
    engine.step()
    assert engine.recorder.steps[0]["finished"] == [("bad", "error", None)]


def test_a_stall_raises_an_error_with_its_numbers_and_an_abort_ends_it() -> None:
    engine = make_engine(small_config(num_gpu_blocks=5, max_num_seqs=3), "solution:1-2")
    for name in "AB":
        engine.add_request(name, [1] * 7, SamplingParams(max_tokens=8))
    engine.add_request("C", [1] * 7, SamplingParams(max_tokens=1))
    engine.step()
    engine.step()
    message = "nothing was scheduled, although 2 requests run and 1 wait: 0 of 4 blocks are free"
    for _ in range(2):
        with pytest.raises(StalledError, match=message):
            engine.step()
    check_state(engine.scheduler)
    assert engine.abort_request("A") is not None
    assert drain(engine)["B"].outputs[0].token_ids == expect([1] * 7, SamplingParams(max_tokens=8)).token_ids
