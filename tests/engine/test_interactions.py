"""Interactions of chunking, caching and preemption that broke other engines, with hand-counted numbers."""

from typing import Any

import pytest

from mini_vllm.core.step_record import StepRecord
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.outputs import RequestOutput
from mini_vllm.runner.fake_model_runner import FakeModelRunner
from mini_vllm.sampling_params import SamplingParams
from tests.engine.runners import install_spy
from tests.engine.workloads import MAX_MODEL_LEN, drain, expect, make_engine, small_config

A, B = list(range(8)), list(range(100, 107))


def recorded(**settings: Any) -> LLMEngine:
    return make_engine(small_config(**settings), record=True)


def steps_of(engine: LLMEngine) -> list[StepRecord]:
    return engine.recorder.steps


def add(engine: LLMEngine, name: str, prompt: list[int], max_tokens: int = 12, **settings: Any) -> None:
    engine.add_request(name, prompt, SamplingParams(max_tokens=max_tokens), **settings)


def preemptions(engine: LLMEngine) -> list[tuple[int, str, str, int]]:
    """Return (step, victim, cause, tokens returned) of every preemption."""
    return [(step["step"], *preempted) for step in steps_of(engine) for preempted in step["preempted"]]


def share(engine: LLMEngine, name: str, step: int) -> tuple[str, int, int]:
    """Return kind, computed tokens and scheduled tokens of one request in one step."""
    return next((r["kind"], r["computed"], r["n"]) for r in steps_of(engine)[step]["scheduled"] if r["id"] == name)


def drain_truly(engine: LLMEngine) -> dict[str, RequestOutput]:
    """Run all requests to the end, and compare every text with that of the same request running alone."""
    params = {name: request.sampling_params for name, request in engine.scheduler.requests.items()}
    outputs = drain(engine)
    for name, output in outputs.items():
        completion = output.outputs[0]
        truth = expect(output.prompt_token_ids, params[name])
        assert (completion.token_ids, completion.finish_reason) == (truth.token_ids, truth.finish_reason)
    return outputs


@pytest.mark.parametrize(("caching", "found_again"), [(True, 12), (False, 0)])
def test_a_victim_in_the_middle_of_its_prefill_starts_from_what_is_still_cached(
    caching: bool, found_again: int
) -> None:
    engine = recorded(num_gpu_blocks=11, max_num_batched_tokens=7, enable_prefix_caching=caching)
    add(engine, "A", A)
    add(engine, "long", list(range(200, 230)), max_tokens=2)
    drain_truly(engine)
    (step, victim, _, returned), *_ = preemptions(engine)
    computed = max(r["computed"] + r["n"] for s in steps_of(engine)[:step] for r in s["scheduled"] if r["id"] == "long")
    assert (victim, returned) == ("long", 0)
    assert 0 < computed < 30, "it was not in the middle of its prefill"
    again = next(r for s in steps_of(engine)[step:] for r in s["scheduled"] if r["id"] == "long")
    assert again["kind"] == "resumed"
    assert (again["computed"] >= found_again) if caching else (again["computed"] == 0)


def test_a_victim_finds_its_own_blocks_again_and_nothing_is_sampled_twice() -> None:
    engine = recorded(num_gpu_blocks=6)
    add(engine, "A", A, max_tokens=9)
    add(engine, "B", B, max_tokens=6)
    outputs = drain_truly(engine)
    assert preemptions(engine) == [(2, "B", "B", 0)]
    (again,) = [r for step in steps_of(engine)[2:] for r in step["scheduled"] if r["kind"] == "resumed"]
    assert (again["id"], again["computed"], again["n"]) == ("B", 4, 5), "A has reused B's last block since"
    assert outputs["B"].metrics.num_cached_tokens == 0, "the hit of the first admission counts"


@pytest.mark.parametrize(("num_tokens", "hit", "computed"), [(8, 4, 4), (9, 8, 1), (12, 8, 4), (11, 8, 3), (4, 0, 4)])
def test_a_fully_cached_prompt_computes_a_whole_block_again_if_it_ends_at_a_block_border(
    num_tokens: int, hit: int, computed: int
) -> None:
    engine = recorded()
    prompt = list(range(num_tokens))
    for name in ("first", "again"):
        add(engine, name, prompt, max_tokens=3)
        drain_truly(engine)
    again = next(r for s in steps_of(engine)[3:] for r in s["scheduled"])
    assert (again["id"], again["hit"], again["computed"], again["n"]) == ("again", hit, hit, computed)


def test_two_requests_of_one_step_share_blocks_that_are_not_computed_yet() -> None:
    engine = recorded()
    add(engine, "first", list(range(12)))
    add(engine, "second", [*range(8), 50])
    engine.step()
    assert share(engine, "second", 0) == ("new", 8, 1)
    assert steps_of(engine)[0]["detail"]["shared"] == {"1": 2, "2": 2}
    drain_truly(engine)


def test_a_request_that_preempts_itself_goes_to_the_front_and_no_request_is_admitted_in_that_step() -> None:
    engine = recorded(num_gpu_blocks=6)
    add(engine, "A", A, max_tokens=9)
    add(engine, "B", B, max_tokens=6)
    engine.step()
    engine.step()
    add(engine, "C", [7], max_tokens=1)
    engine.step()
    step = steps_of(engine)[2]
    assert step["preempted"] == [("B", "B", 0)]
    assert [r["id"] for r in step["scheduled"]] == ["A"]
    assert step["waiting_after"] == ["B", "C"]
    assert step["free_after_schedule"] == 2, "C would have fitted"
    drain_truly(engine)


def test_preempting_a_planned_request_removes_it_from_the_plan_the_budget_and_the_cache() -> None:
    engine = recorded(num_gpu_blocks=8, policy="priority", long_prefill_token_threshold=8)
    add(engine, "patient", list(range(25)), max_tokens=2, priority=5)
    engine.step()
    add(engine, "urgent", [50, 51, 52, 53], max_tokens=4, priority=0)
    outputs = drain_truly(engine)
    assert preemptions(engine) == [(2, "patient", "urgent", 8)]
    step = steps_of(engine)[2]
    assert [(r["id"], r["n"], r["new_blocks"]) for r in step["scheduled"]] == [("urgent", 1, [7])]
    assert step["total"] == 1
    assert 6 not in step["detail"]["cached"], "block 6 was planned for this step and never filled"
    (again,) = [r for step in steps_of(engine) for r in step["scheduled"] if r["kind"] == "resumed"]
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


@pytest.mark.parametrize("num_prompt", [5, 7, 8])
def test_a_stop_at_a_block_border_allocates_no_further_block(num_prompt: int) -> None:
    engine = recorded()
    prompt = list(range(num_prompt))
    add(engine, "r", prompt, max_tokens=9 - num_prompt)
    drain_truly(engine)
    taken = [block for step in steps_of(engine) for r in step["scheduled"] for block in r["new_blocks"]]
    assert taken == [1, 2], "the ninth token is sampled, never computed, and needs no slot"
    assert steps_of(engine)[-1]["free_after_update"] == 100


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


def test_a_salt_and_an_adapter_of_the_same_name_are_not_the_same_tenant() -> None:
    engine = recorded()
    add(engine, "salt", list(range(9)), max_tokens=1, cache_salt="x")
    add(engine, "adapter", list(range(9)), max_tokens=1, adapter_id="x")
    assert [output.metrics.num_cached_tokens for output in drain(engine).values()] == [0, 0]


@pytest.mark.parametrize("num_prompt", [1, 30, 38, 39])
def test_a_request_ends_at_the_maximum_model_length(num_prompt: int) -> None:
    engine = recorded(max_num_batched_tokens=6)
    add(engine, "r", list(range(num_prompt)), max_tokens=1000)
    completion = drain_truly(engine)["r"].outputs[0]
    assert (len(completion.token_ids), completion.finish_reason) == (MAX_MODEL_LEN - num_prompt, "length")
