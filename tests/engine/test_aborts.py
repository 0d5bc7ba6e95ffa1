"""An abort keeps the tokens generated so far and frees everything else, in every state of a request."""

import pytest

from mini_vllm.core.request import RequestStatus
from mini_vllm.sampling_params import SamplingParams
from tests.engine.runners import SpyRunner, install_faults
from tests.engine.workloads import drain, expect, make_engine, small_config


def test_unusable_logits_of_an_aborted_request_affect_no_other_request() -> None:
    engine = make_engine(small_config())
    faulty = install_faults(engine)
    spy = SpyRunner(faulty)
    engine.runner = spy
    for name in ("good", "aborted"):
        engine.add_request(name, [1, 2, 3], SamplingParams(max_tokens=2))
    spy.before_batch = lambda: engine.abort_request("aborted")
    faulty.fault = "logits"
    outputs = engine.step()
    assert faulty.fired == "aborted"
    assert [output.request_id for output in outputs] == ["good"]


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.parametrize("state", ["waiting", "mid-prefill", "running", "preempted"])
def test_an_abort_keeps_the_generated_tokens_in_every_state(state: str, policy: str) -> None:
    settings = {"num_gpu_blocks": 8, "max_num_batched_tokens": 10, "max_num_seqs": 3}
    engine = make_engine(small_config(policy=policy, **settings))
    prompt, params = list(range(14)), SamplingParams(max_tokens=10)
    engine.add_request("first", prompt, params)
    engine.add_request("second", [*prompt[:5], 77], params, priority=1)

    def state_of(name: str) -> str:
        request = engine.scheduler.requests[name]
        mid_prefill = request.num_computed_tokens < request.num_prompt_tokens
        return "mid-prefill" if request.status is RequestStatus.RUNNING and mid_prefill else request.status.name.lower()

    victim = "first" if state == "mid-prefill" else "second"
    while state_of(victim) != state:
        engine.step()
    generated = engine.scheduler.requests[victim].output_token_ids
    output = engine.abort_request(victim)
    assert output is not None
    truth = expect(prompt if victim == "first" else [*prompt[:5], 77], params)
    assert (output.finished, output.outputs[0].finish_reason) == (True, "abort")
    assert output.outputs[0].token_ids == generated == truth.token_ids[: len(generated)]
    assert output.outputs[0].text == truth.text[: len(generated)]
    assert bool(generated) == (state in ("running", "preempted"))
    assert engine.abort_request(victim) is None
    other = "second" if victim == "first" else "first"
    assert drain(engine)[other].outputs[0].finish_reason == "length"
