"""A request becomes more or less urgent while it lives."""

import pytest

from mini_vllm import EngineConfig, Lineup, parse_lineup
from mini_vllm.assembly.build import build_engine
from mini_vllm.config import Policy
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.sampling_params import SamplingParams

LINEUPS = [parse_lineup("solution:1-5"), parse_lineup("solution:1-5,solution:8-9,solution:11")]


def engine_with_four(policy: Policy, lineup: Lineup = LINEUPS[0]) -> LLMEngine:
    """Return an engine with one seat, in which `a` runs and `b`, `c` and `d` wait."""
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
