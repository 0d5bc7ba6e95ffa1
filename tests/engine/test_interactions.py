"""Interactions of the phases that no trace of vLLM decides (`test_parity.py`), with hand-counted numbers."""

from typing import Any

import pytest

from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.outputs import RequestOutput
from mini_vllm.runner.fake_model_runner import FakeModelRunner
from mini_vllm.sampling_params import SamplingParams
from tests.engine.runners import install_spy
from tests.engine.workloads import MAX_MODEL_LEN, drain, expect, make_engine, small_config

A = list(range(8))


def recorded(**settings: Any) -> LLMEngine:
    return make_engine(small_config(**settings), record=True)


def add(engine: LLMEngine, name: str, prompt: list[int], max_tokens: int = 12, **settings: Any) -> None:
    engine.add_request(name, prompt, SamplingParams(max_tokens=max_tokens), **settings)


def preemptions(engine: LLMEngine) -> list[tuple[int, str, str, int]]:
    """Return (step, victim, cause, tokens returned) of every preemption."""
    return [(step["step"], *preempted) for step in engine.recorder.steps for preempted in step["preempted"]]


def drain_truly(engine: LLMEngine) -> dict[str, RequestOutput]:
    """Run all requests to the end, and compare every text with that of the same request running alone."""
    params = {name: request.sampling_params for name, request in engine.scheduler.requests.items()}
    outputs = drain(engine)
    for name, output in outputs.items():
        completion = output.outputs[0]
        truth = expect(output.prompt_token_ids, params[name])
        assert (completion.token_ids, completion.finish_reason) == (truth.token_ids, truth.finish_reason)
    return outputs


def test_preempting_a_planned_request_removes_it_from_the_plan_the_budget_and_the_cache() -> None:
    engine = recorded(num_gpu_blocks=8, policy="priority", long_prefill_token_threshold=8)
    add(engine, "patient", list(range(25)), max_tokens=2, priority=5)
    engine.step()
    add(engine, "urgent", [50, 51, 52, 53], max_tokens=4, priority=0)
    outputs = drain_truly(engine)
    assert preemptions(engine) == [(2, "patient", "urgent", 8)]
    step = engine.recorder.steps[2]
    assert [(r["id"], r["n"], r["new_blocks"]) for r in step["scheduled"]] == [("urgent", 1, [7])]
    assert step["total"] == 1
    assert 6 not in step["detail"]["cached"], "block 6 was planned for this step and never filled"
    (again,) = [r for step in engine.recorder.steps for r in step["scheduled"] if r["kind"] == "resumed"]
    assert (again["id"], again["computed"], again["n"]) == ("patient", 16, 8)
    assert outputs["patient"].metrics.num_preemptions == 1


def test_without_the_guard_a_long_prompt_thrashes_and_with_it_nothing_is_computed_twice() -> None:
    num_preemptions, num_computed = {}, {}
    for guard in (False, True):
        settings = {"num_gpu_blocks": 11, "max_num_batched_tokens": 8, "enable_prefix_caching": False}
        engine = recorded(admission_guard=guard, **settings)
        add(engine, "A", A)
        add(engine, "B", list(range(100, 108)))
        add(engine, "long", list(range(200, 230)), max_tokens=2)
        spy = install_spy(engine)
        drain_truly(engine)
        num_preemptions[guard] = [victim for _, victim, _, _ in preemptions(engine)]
        num_computed[guard] = spy.num_computed_tokens
    assert num_preemptions == {False: ["long"] * 3, True: []}
    needed = (8 + 11) + (8 + 11) + (30 + 1)
    assert num_computed == {False: needed + 30, True: needed}


def test_an_end_of_text_as_first_token_ends_the_request_with_no_text() -> None:
    engine = make_engine(small_config())
    engine.runner = FakeModelRunner(101, 4, answers=[256])
    engine.add_request("r", A)
    engine.add_request("ignores", A, SamplingParams(max_tokens=3, ignore_eos=True))
    done, goes_on = engine.step()
    assert (done.outputs[0].token_ids, done.outputs[0].text, done.outputs[0].finish_reason) == ([256], "", "stop")
    assert done.outputs[0].stop_reason is None
    assert not goes_on.finished
    assert drain(engine)["ignores"].outputs[0].token_ids == [256] * 3
    assert engine.scheduler.kv.num_free_blocks == 100


@pytest.mark.parametrize("setting", ["cache_salt", "adapter_id"])
def test_blocks_are_shared_within_a_tenant_or_adapter_and_never_across(setting: str) -> None:
    engine = recorded()
    prompt = list(range(9))
    hits = {}
    for name, value in (("plain", None), ("x", "x"), ("y", "y"), ("x again", "x"), ("plain again", None)):
        add(engine, name, prompt, max_tokens=1, **{setting: value})
        hits[name] = drain(engine)[name].metrics.num_cached_tokens
    assert hits == {"plain": 0, "x": 0, "y": 0, "x again": 8, "plain again": 8}


@pytest.mark.parametrize("num_prompt", [1, 30, 38, 39])
def test_a_request_ends_at_the_maximum_model_length(num_prompt: int) -> None:
    engine = recorded(max_num_batched_tokens=6)
    add(engine, "r", list(range(num_prompt)), max_tokens=1000)
    completion = drain_truly(engine)["r"].outputs[0]
    assert (len(completion.token_ids), completion.finish_reason) == (MAX_MODEL_LEN - num_prompt, "length")
