"""A failing runner costs one step and nothing else; a stall raises an error instead of hanging."""

from typing import get_args

import pytest

from mini_vllm.core.invariants import check_drained, check_state
from mini_vllm.core.request import RequestStatus
from mini_vllm.engine.errors import RunnerError, StalledError
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.sampling_params import SamplingParams
from tests.engine.runners import RAISES, Fault, SpyRunner, install_faults
from tests.engine.snapshots import MemoryCheck
from tests.engine.workloads import add, drain, expect, make_engine, make_workload, small_config, true_tokens

FAULTS = [fault for fault in get_args(Fault) if fault in RAISES]
TIGHT = {"num_gpu_blocks": 13, "max_num_batched_tokens": 10, "long_prefill_token_threshold": 6, "max_num_seqs": 4}


def run_with_faults(engine: LLMEngine, seed: int, fault: Fault, every: int) -> tuple[dict[str, list[int]], set[str]]:
    """Run a workload with a fault in every `every`-th step; return its tokens and what failed steps contained."""
    faulty = install_faults(engine)
    spy = SpyRunner(faulty)
    engine.runner = spy
    memory = MemoryCheck(engine, faulty.inner)
    spy.before_batch = memory.note_hashes
    pending = make_workload(seed)
    finished: dict[str, list[int]] = {}
    seen: set[str] = set()
    number = 0
    while pending or engine.has_unfinished_requests():
        while pending and pending[0].step <= number:
            add(engine, pending.pop(0))
        number += 1
        assert number < 2000, "the workload does not end"
        faulty.fault, faulty.fired = (fault if number % every == 0 else None), None
        num_preemptions = sum(request.num_preemptions for request in engine.scheduler.requests.values())
        try:
            finished |= {o.request_id: o.outputs[0].token_ids for o in engine.step() if o.finished}
        except RAISES[fault]:
            check_state(engine.scheduler, engine.config.policy)
            memory.check()
            requests = engine.scheduler.requests
            rows = spy.batches[-1]
            assert all(requests[row.request_id].status is RequestStatus.PREEMPTED for row in rows)
            seen |= {"chunk" for row in rows if not row.needs_token}
            seen |= {"hit" for row in rows if row.num_computed_tokens and row.num_scheduled_tokens > 1}
            if sum(request.num_preemptions for request in requests.values()) > num_preemptions:
                seen.add("preemption")
        else:
            assert faulty.fired is None, f"the fault {fault!r} was swallowed"
    check_drained(engine.scheduler)
    return finished, seen


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_failed_step_can_be_repeated_without_changing_the_tokens(fault: Fault, policy: str) -> None:
    seen: set[str] = set()
    for seed in range(12):
        engine = make_engine(small_config(policy=policy, **TIGHT), record=seed % 2 == 0)
        tokens, seen_now = run_with_faults(engine, seed, fault, every=4)
        assert tokens == true_tokens(make_workload(seed)), f"seed {seed}"
        seen |= seen_now
    assert seen == {"chunk", "hit", "preemption"}, "the faults must also hit chunks, cache hits and preemptions"


@pytest.mark.parametrize("lineup", ["solution:1", "solution:1-2", "solution:1,solution:5", "solution:1-2,solution:4"])
@pytest.mark.parametrize("fault", ["half", "after"])
def test_a_failed_step_can_be_repeated_while_later_phases_are_absent(lineup: str, fault: Fault) -> None:
    for seed in range(12):
        tokens, _ = run_with_faults(make_engine(small_config(max_num_seqs=4), lineup), seed, fault, every=3)
        assert tokens == true_tokens(make_workload(seed)), f"seed {seed}"


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


def test_a_fault_in_the_first_step_leaves_no_block_behind() -> None:
    engine = make_engine(small_config())
    faulty = install_faults(engine)
    engine.add_request("r", list(range(9)), SamplingParams(max_tokens=3))
    faulty.fault = "interrupt"
    with pytest.raises(KeyboardInterrupt):
        engine.step()
    assert engine.scheduler.kv.num_free_blocks == engine.scheduler.kv.num_usable_blocks
    assert not engine.scheduler.prefix_cache.cached_blocks()
    assert engine.abort_request("r") is not None
    check_drained(engine.scheduler)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("missing", r"the runner returned tokens for \[\], expected \['r'\]"),
        ("extra", r"the runner returned tokens for \['no-such-request', 'r'\], expected \['r'\]"),
        ("range", r"the runner returned for r the tokens \[1000\], expected one token id"),
        ("two", r"the runner returned for r the tokens \[1, 2\], expected one token id"),
        ("both", r"\br\b"),
    ],
)
def test_a_wrong_output_raises_an_error_with_the_expected_requests(fault: Fault, message: str) -> None:
    engine = make_engine(small_config())
    install_faults(engine).fault = fault
    engine.add_request("r", [1, 2, 3])
    with pytest.raises(RunnerError, match=message):
        engine.step()


@pytest.mark.parametrize("record", [False, True])
def test_unusable_logits_end_only_their_own_request(record: bool) -> None:
    engine = make_engine(small_config(), record=record)
    faulty = install_faults(engine)
    prompts = {"good": list(range(9)), "bad": list(range(10))}
    for name, prompt in prompts.items():
        engine.add_request(name, prompt, SamplingParams(max_tokens=6))
    engine.step()
    faulty.fault = "logits"
    good, bad = engine.step()
    assert (faulty.fired, good.request_id, bad.request_id) == ("bad", "good", "bad")
    assert (bad.finished, bad.outputs[0].finish_reason, bad.error) == (True, "error", "the logits are not finite")
    truth = {name: expect(prompt, SamplingParams(max_tokens=6)) for name, prompt in prompts.items()}
    assert bad.outputs[0].token_ids == truth["bad"].token_ids[:1], "its tokens so far are kept"
    assert bad.outputs[0].text == truth["bad"].text[:1]
    assert not good.finished
    assert drain(engine)["good"].outputs[0].token_ids == truth["good"].token_ids


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


def test_a_chunk_policy_that_raises_costs_one_step_too() -> None:
    arrivals = make_workload(1)[:1]
    engine = make_engine(small_config())
    add(engine, arrivals[0])
    chunks = engine.scheduler.chunks
    plain = chunks.should_sample
    chunks.should_sample = _raises  # type: ignore[method-assign]
    with pytest.raises(NotImplementedError):
        engine.step()
    check_state(engine.scheduler)
    chunks.should_sample = plain  # type: ignore[method-assign]
    token_ids = {request_id: output.outputs[0].token_ids for request_id, output in drain(engine).items()}
    assert token_ids == true_tokens(arrivals)


def _raises(request: object, num_computed_tokens: int) -> bool:
    raise NotImplementedError("Phase 5, task 3: should_sample")
