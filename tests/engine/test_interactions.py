"""Interactions between phases that no vLLM trace covers, with hand-counted numbers; priorities that change."""

from typing import Any

import pytest

from mini_vllm import EngineConfig, Lineup, parse_lineup
from mini_vllm.assembly.build import build_engine
from mini_vllm.config import Policy
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.runner.fake_model_runner import FakeModelRunner
from mini_vllm.sampling_params import SamplingParams
from tests.engine.runners import install_spy
from tests.engine.workloads import drain, expect, make_engine, small_config

LINEUPS = [parse_lineup("solution:1-5"), parse_lineup("solution:1-5,solution:8-9,solution:11")]


def test_without_the_guard_a_long_prompt_thrashes_and_with_it_nothing_is_computed_twice() -> None:
    requests = {"A": (range(8), 12), "B": (range(100, 108), 12), "long": (range(200, 230), 2)}
    truth = {
        name: expect(prompt, SamplingParams(max_tokens)).token_ids for name, (prompt, max_tokens) in requests.items()
    }
    num_preemptions, num_computed = {}, {}
    for guard in (False, True):
        settings: dict[str, Any] = {"max_num_batched_tokens": 8, "enable_prefix_caching": False}
        engine = make_engine(small_config(num_gpu_blocks=11, admission_guard=guard, **settings), record=True)
        for name, (prompt, max_tokens) in requests.items():
            engine.add_request(name, list(prompt), SamplingParams(max_tokens))
        spy = install_spy(engine)
        assert {name: output.outputs[0].token_ids for name, output in drain(engine).items()} == truth
        num_preemptions[guard] = [victim for step in engine.recorder.steps for victim, *_ in step["preempted"]]
        num_computed[guard] = spy.num_computed_tokens
    assert num_preemptions == {False: ["long"] * 3, True: []}
    needed = (8 + 11) + (8 + 11) + (30 + 1)
    assert num_computed == {False: needed + 30, True: needed}


def test_an_end_of_text_as_first_token_ends_the_request_with_no_text() -> None:
    engine = make_engine(small_config())
    engine.runner = FakeModelRunner(101, 4, answers=[256])
    engine.add_request("r", [1, 2])
    engine.add_request("ignores", [1, 2], SamplingParams(max_tokens=3, ignore_eos=True))
    done, goes_on = engine.step()
    assert (done.outputs[0].token_ids, done.outputs[0].text, done.outputs[0].finish_reason) == ([256], "", "stop")
    assert done.outputs[0].stop_reason is None
    assert not goes_on.finished
    assert drain(engine)["ignores"].outputs[0].token_ids == [256] * 3
    assert engine.scheduler.kv.num_free_blocks == 100


@pytest.mark.parametrize("setting", ["cache_salt", "adapter_id"])
def test_blocks_are_shared_within_a_tenant_or_adapter_and_never_across(setting: str) -> None:
    engine = make_engine(small_config())
    prompt = list(range(9))
    hits = {}
    for name, value in (("plain", None), ("x", "x"), ("y", "y"), ("x again", "x"), ("plain again", None)):
        tenant: dict[str, Any] = {setting: value}
        engine.add_request(name, prompt, SamplingParams(max_tokens=1), **tenant)
        hits[name] = drain(engine)[name].metrics.num_cached_tokens
    assert hits == {"plain": 0, "x": 0, "y": 0, "x again": 8, "plain again": 8}


def engine_with_four(policy: Policy, lineup: Lineup = LINEUPS[0]) -> LLMEngine:
    """Return an engine that runs one request at a time, in which `a` runs and `b`, `c` and `d` wait."""
    config = EngineConfig(
        max_num_seqs=1, max_num_batched_tokens=16, block_size=4, num_gpu_blocks=40, policy=policy, check_invariants=True
    )
    engine = build_engine(config, lineup, record=True)
    for name in "abcd":
        engine.add_request(name, [1, 2, 3], SamplingParams(max_tokens=3, ignore_eos=True), priority=5)
    engine.step()
    return engine


def order_of_finish(engine: LLMEngine) -> str:
    finished = ""
    while engine.has_unfinished_requests():
        finished += "".join(output.request_id for output in engine.step() if output.finished)
    return finished


@pytest.mark.parametrize("lineup", LINEUPS, ids=str)
def test_a_waiting_request_moves(lineup: Lineup) -> None:
    engine = engine_with_four("priority", lineup)
    assert engine.update_priority("d", 1)
    assert engine.update_priority("b", 9)
    assert order_of_finish(engine) == "adcb"
    assert [record["priorities"] for record in engine.recorder.steps if "priorities" in record] == [{"d": 1, "b": 9}]


def test_first_come_first_served_keeps_its_order() -> None:
    engine = engine_with_four("fcfs")
    assert engine.update_priority("b", 9)
    assert order_of_finish(engine) == "abcd"


def test_a_running_request_becomes_the_victim() -> None:
    config = EngineConfig(
        max_num_seqs=3, max_num_batched_tokens=64, block_size=4, num_gpu_blocks=8, policy="priority",
        check_invariants=True,
    )  # fmt: skip
    engine = build_engine(config, LINEUPS[0], record=True)
    for name in "abc":
        engine.add_request(name, [1] * 7, SamplingParams(max_tokens=8, ignore_eos=True), priority=5)
    engine.step()
    engine.update_priority("a", 6)
    order_of_finish(engine)
    victims = [victim for record in engine.recorder.steps for victim, *_ in record["preempted"]]
    assert victims[0] == "a"


def test_an_unknown_or_finished_request_and_a_bad_priority() -> None:
    engine = engine_with_four("priority")
    assert not engine.update_priority("z", 1)
    order_of_finish(engine)
    assert not engine.update_priority("a", 1)
    with pytest.raises(ValueError, match="priority must be an integer, got True"):
        engine.update_priority("a", True)
