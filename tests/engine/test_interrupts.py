"""Simulates Ctrl-C at every line of every step of a small run: no token may be lost or output twice."""

from contextlib import suppress
from dataclasses import replace

import pytest

from mini_vllm import RequestOutput, SamplingParams
from mini_vllm.config import SpeculativeConfig
from mini_vllm.core.invariants import check_drained, check_state
from mini_vllm.engine.llm_engine import LLMEngine
from tests.engine.interrupts import interrupted_at
from tests.engine.workloads import draft_half_right, drain, expect, make_engine, small_config

PROMPT = list(range(9))
REQUESTS = {
    "length": SamplingParams(max_tokens=2),
    "stop": SamplingParams(max_tokens=8, stop=("a", "e", "i", "o", "u")),
    "token": SamplingParams(max_tokens=8, stop_token_ids=tuple(b"aeiou")),
    "victim": SamplingParams(max_tokens=6),
}
NUM_STEPS = 6


class Received:
    """What the caller of an engine has received: the pieces of each text, and the requests that have ended."""

    def __init__(self) -> None:
        self.texts = dict.fromkeys(REQUESTS, "")
        self.finished: list[str] = []

    def take(self, outputs: list[RequestOutput]) -> None:
        for output in outputs:
            self.texts[output.request_id] += output.new_text
            self.finished += [output.request_id] * output.finished


def started(policy: str, *, has_drafts: bool = False) -> LLMEngine:
    config = small_config(policy=policy, num_gpu_blocks=9, max_num_batched_tokens=16)
    if has_drafts:
        config = replace(config, speculative_config=SpeculativeConfig(num_speculative_tokens=3))
    engine = make_engine(config, "solution:1-5,solution:7")
    draft_half_right(engine)
    for name, params in REQUESTS.items():
        engine.add_request(name, PROMPT, params, priority=name == "victim")
    return engine


@pytest.mark.parametrize("has_drafts", [False, True])
@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.parametrize("step", range(NUM_STEPS))
def test_an_interrupt_at_any_line_of_a_step_costs_that_step_and_nothing_else(
    policy: str, step: int, has_drafts: bool
) -> None:
    line = 0
    while True:
        line += 1
        engine, received = started(policy, has_drafts=has_drafts), Received()
        for _ in range(step):
            received.take(engine.step())
        outputs: list[RequestOutput] = []
        with suppress(KeyboardInterrupt), interrupted_at(line, KeyboardInterrupt()) as interruption:
            outputs = engine.step()
        received.take(outputs)
        check_state(engine.scheduler, engine.config.policy)
        drain(engine, on_step=received.take)
        check_drained(engine.scheduler)
        assert sorted(received.finished) == sorted(REQUESTS), interruption.place
        assert not engine.processor.states, interruption.place
        for name, params in REQUESTS.items():
            assert received.texts[name] == expect(PROMPT, params).text, (name, interruption.place)
        if not interruption.place:
            assert line > 100, "the step has fewer lines than it should have"
            return


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_an_abort_after_an_interrupt_returns_the_last_output_of_a_request_that_had_ended(policy: str) -> None:
    line, num_ended = 0, 0
    while True:
        line += 1
        engine = started(policy)
        engine.step()
        outputs: list[RequestOutput] = []
        with suppress(KeyboardInterrupt), interrupted_at(line, KeyboardInterrupt()) as interruption:
            outputs = engine.step()
        if not interruption.place:
            break
        num_ended += "length" not in engine.scheduler.requests and not outputs
        last = {name: engine.abort_request(name) for name in REQUESTS}
        assert all(output is not None and output.finished for output in last.values()), interruption.place
        check_drained(engine.scheduler)
        assert not engine.processor.states, interruption.place
    assert num_ended > 3, "no interrupt came between the end of a request and its output"


def test_an_interrupt_while_a_plan_is_recorded_leaves_the_record_as_it_was() -> None:
    for line in range(1, 200):
        engine = make_engine(small_config(), record=True)
        engine.add_request("A", PROMPT, SamplingParams(max_tokens=3))
        engine.step()
        first = dict(engine.recorder.steps[0])
        engine.add_request("B", PROMPT, SamplingParams(max_tokens=3))
        with suppress(KeyboardInterrupt), interrupted_at(line, KeyboardInterrupt(), "after_schedule") as interruption:
            engine.step()
        drain(engine)
        steps = engine.recorder.steps
        assert [step["step"] for step in steps] == list(range(len(steps))), interruption.place
        assert [request_id for step in steps for request_id in step["added"]] == ["A", "B"], interruption.place
        assert dict(steps[0]) == first, interruption.place
