"""Drafts change only how many steps a text takes; also tests how many drafts a request gets."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from mini_vllm import SamplingParams, parse_lineup
from mini_vllm.assembly.build_scheduler import build_scheduler
from mini_vllm.config import EngineConfig, SpeculativeConfig
from mini_vllm.core.invariants import check_drained
from mini_vllm.core.request import Request
from mini_vllm.core.step import ScheduledRequest
from mini_vllm.engine.llm_engine import LLMEngine
from mini_vllm.runner.drafts.drafting_runner import AdaptiveDraftLength, DraftingRunner
from mini_vllm.runner.fake_model_runner import FakeModelRunner
from tests.engine.workloads import draft_half_right, drain, expect, make_engine, small_config

ALL_BUT_THE_MODEL = "solution:1-5,solution:7"
PROMPT = [5, 6, 7, 8, 9]


def drafting_engine(config: EngineConfig, num_speculative_tokens: int, **speculative: Any) -> LLMEngine:
    speculative_config = SpeculativeConfig("ngram", num_speculative_tokens, **speculative)
    engine = make_engine(replace(config, speculative_config=speculative_config), ALL_BUT_THE_MODEL, record=True)
    draft_half_right(engine)
    return engine


def test_right_drafts_are_accepted_up_to_the_first_wrong_one() -> None:
    engine = drafting_engine(small_config(), 4, adaptive=False)
    engine.add_request("A", PROMPT, SamplingParams(max_tokens=20))
    outputs = drain(engine)
    assert outputs["A"].outputs[0].token_ids == expect(tuple(PROMPT), SamplingParams(max_tokens=20), 40).token_ids
    steps = engine.recorder.steps
    for before, step in pairwise(steps):
        (share,) = step["scheduled"]
        assert share.get("drafts", []) == before["drafts_given"].get("A", [])
        kept = step["sampled"]["A"]
        assert kept[:-1] == share.get("drafts", [])[: len(kept) - 1], "all but the last are accepted drafts"
    assert len(steps) < 15
    assert engine.draft_statistics is not None
    assert engine.draft_statistics.num_accepted_tokens == 20 - len(steps)


def test_a_stop_string_among_accepted_drafts_ends_the_request_there() -> None:
    text = expect(tuple(PROMPT), SamplingParams(max_tokens=20), 40).text
    for place in range(1, 15):
        params = SamplingParams(max_tokens=20, stop=(text[place : place + 2],))
        truth = expect(tuple(PROMPT), params, 40)
        engine = drafting_engine(small_config(), 5, adaptive=False)
        engine.add_request("A", PROMPT, params)
        output = drain(engine)["A"].outputs[0]
        assert (output.text, output.token_ids) == (truth.text, truth.token_ids)
        recorded = [token_id for step in engine.recorder.steps for _, tokens in step["output"] for token_id in tokens]
        assert recorded == truth.token_ids
        check_drained(engine.scheduler)


def test_no_draft_follows_the_last_possible_token() -> None:
    engine = drafting_engine(small_config(), 5, adaptive=False)
    engine.add_request("A", PROMPT, SamplingParams(max_tokens=3))
    drain(engine)
    drafts = [len(drafts) for step in engine.recorder.steps for drafts in step["drafts_given"].values()]
    assert max(drafts) == 1


def test_no_drafts_while_too_many_requests_decode() -> None:
    engine = drafting_engine(small_config(), 3, adaptive=False, disable_by_batch_size=2)
    for number in range(3):
        engine.add_request(f"r{number}", PROMPT, SamplingParams(max_tokens=4 + 8 * number))
    drain(engine)
    drafted = {len(step["output"]) for step in engine.recorder.steps if step["drafts_given"]}
    assert drafted == {1, 2}


@pytest.mark.parametrize(("num_requests", "expected"), [(1, 4), (4, 2), (16, 1)])
def test_the_more_requests_decode_the_fewer_drafts_each_gets(num_requests: int, expected: int) -> None:
    """For a single request, an extra row costs a tenth of a step, because the weights are read anyway.

    With 15 other requests, the extra rows cost two thirds of a step.
    """
    config = replace(small_config(), max_num_seqs=16, max_num_batched_tokens=128, num_gpu_blocks=200)
    engine = drafting_engine(config, 4)
    for number in range(num_requests):
        engine.add_request(f"r{number}", PROMPT, SamplingParams(max_tokens=20))
    engine.step()
    drafts = engine.recorder.steps[0]["drafts_given"].values()
    assert [len(one) for one in drafts] == [expected] * num_requests


def test_a_request_that_has_ended_leaves_nothing_in_the_drafter() -> None:
    engine = drafting_engine(small_config(), 3)
    for number in range(30):
        engine.add_request(f"r{number}", PROMPT, SamplingParams(max_tokens=4))
        engine.step()
        if number % 3 == 0:
            engine.abort_request(f"r{number}")
    drain(engine)
    engine.add_request("last", PROMPT, SamplingParams(max_tokens=4))
    drain(engine)
    assert isinstance(engine.runner, DraftingRunner)
    assert len(engine.runner._lengths) <= 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "magic"}, "method must be one of ngram, draft_model, eagle, mtp; got 'magic'"),
        ({"num_speculative_tokens": 0}, "num_speculative_tokens must be an integer of at least 1, got 0"),
        ({"disable_by_batch_size": 0}, "disable_by_batch_size must be an integer of at least 1, got 0"),
        ({"prompt_lookup_min": 5}, r"prompt_lookup_min must be at most prompt_lookup_max \(3\), got 5"),
    ],
)
def test_an_impossible_setting_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SpeculativeConfig(**settings)


def test_an_elective_may_come_from_the_learner() -> None:
    """An untouched starter in the engine fails with the name of its task."""
    config = EngineConfig(max_model_len=32, num_gpu_blocks=9, speculative_config=SpeculativeConfig())
    with pytest.raises(NotImplementedError, match="Phase 7, tasks 2 and 3: store the settings"):
        build_scheduler(config, parse_lineup("solution:1-6,starter:7"))


def test_a_text_that_cannot_be_guessed_is_tried_ever_more_rarely() -> None:
    length, tried = AdaptiveDraftLength(4, 0.1), {}
    for step in range(200):
        if num_drafts := length.next_length():
            tried[step] = num_drafts
            length.observe(num_drafts, 0)
    assert list(tried.values()) == [4, 2, *[1] * 13]
    assert list(tried) == [*range(6), 7, 10, 15, 24, 41, 74, 107, 140, 173]
    while (num_drafts := length.next_length()) == 0:
        pass
    assert num_drafts == 1, "the first try after a pause is a small one"
    for _ in range(2):
        length.observe(1, 1)
    assert length.next_length() > 0
    assert length.next_pause == 1, "the pauses start over"


def test_expensive_drafts_start_with_few() -> None:
    cheap, expensive = AdaptiveDraftLength(4, 0.1), AdaptiveDraftLength(4, 0.4)
    assert [cheap.next_length(), expensive.next_length()] == [4, 2]
    lengths = []
    for _ in range(4):
        lengths.append(expensive.next_length())
        expensive.observe(lengths[-1], lengths[-1])
    assert lengths == [2, 3, 4, 4]


@pytest.mark.parametrize(
    ("right_of_four", "cost", "expected"), [(4, 0.4, 4), (1, 0.4, 1), (0, 0.4, 0), (1, 0.1, 2), (3, 0.1, 4)]
)
def test_a_request_gets_as_many_drafts_as_pay_off(right_of_four: int, cost: float, expected: int) -> None:
    """With 1 correct draft, the fraction settles at 1/2.

    At a cost of 0.1, two drafts give 1.75 tokens for 1.2 steps, and three give 1.88 for 1.3.
    """
    length = AdaptiveDraftLength(4, cost)
    for _ in range(30):
        length.observe(4, right_of_four)
    length.pause = 0
    assert length._best_length() == expected
    assert length.next_length() == max(1, expected)


def test_a_runner_that_ignores_drafts_samples_after_the_last_known_token() -> None:
    request = Request("A", [4, 5, 6])
    plain, ignoring = (FakeModelRunner(4, 4) for _ in range(2))
    undrafted = plain.execute_model([ScheduledRequest(request, 0, 3, [1], needs_token=True)])
    drafted = ScheduledRequest(request, 0, 5, [1, 2], needs_token=True, draft_token_ids=(7, 8))
    assert ignoring.execute_model([drafted]) == undrafted
