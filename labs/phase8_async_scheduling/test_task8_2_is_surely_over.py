"""Graded tests of task 8.2: whether the step in flight is the last one of a request."""

import random
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest

from mini_vllm.core.request import Request
from mini_vllm.electives.async_scheduling import AsyncScheduling
from mini_vllm_labs.grading.labtest.expect import Told, expect_equal, expect_unchanged, explained
from mini_vllm_labs.grading.labtest.moments import Living, varied
from mini_vllm_labs.grading.labtest.phase8.cases import OWNER, facts, request_with, scheduling_of, told_of_call
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.labtest.support import fields_of
from mini_vllm_labs.pictures.text import counted

RULE = (
    "A request is surely over if a step in flight brings at least one token for it and that one is the last that "
    "max_tokens allows."
)


def in_flight(num_prompt: int, num_outputs: int, max_tokens: int, num_drafts: int, most: int) -> Request:
    """Return a request with one step in flight, which samples and verifies drafts."""
    num_tokens = num_prompt + num_outputs
    return request_with(
        num_prompt,
        num_outputs,
        computed=num_tokens + num_drafts,
        placeholders=1 + num_drafts,
        max_tokens=max_tokens,
        drafts=[-1] * most,
    )


def label(request: Request) -> str:
    return (
        f"{request.num_output_tokens} generated known, {request.num_computed_tokens} computed, "
        f"{counted(request.num_output_placeholders, 'placeholder')}"
    )


def check_row(scheduling: AsyncScheduling, requests: Sequence[Request], expected: Sequence[bool], why: str) -> None:
    """Ask about each of these requests, then compare all answers together."""
    lines = [why, f"the prompt has {counted(requests[0].num_prompt_tokens, 'token')}; the computed tokens include it"]
    yours: list[bool] = []
    for request in requests:
        before = fields_of(request)
        with explained([why, facts(request)], rule=RULE):
            yours.append(bool(scheduling.is_surely_over(request)))
        expect_unchanged(
            fields_of(request),
            before,
            rule=f"is_surely_over answers a question and changes nothing. {OWNER}",
            situation=facts(request),
            hint="which line of yours assigns to the request, or to a list that belongs to it?",
        )
    labels = [label(request) for request in requests]
    wrong = next((label for label, mine, right in zip(labels, yours, expected, strict=True) if mine != right), "")
    told: Told = {
        "rule": RULE,
        "situation": lines,
        "hint": f"{wrong}: how many tokens are certain to arrive from steps in flight, and how many of the "
        f"{requests[0].sampling_params.max_tokens} allowed ones are known then at least?",
    }
    if wrong:
        new: Any = type(scheduling)

        def ask(copies: Sequence[Request]) -> list[bool]:
            another = new(scheduling.num_speculative_tokens)  # type: ignore[attr-defined]
            return [bool(another.is_surely_over(one)) for one in copies]

        told = told_of_call(told, ask, requests, list(expected), "num_output_placeholders", "sampling_params")
    expect_equal(dict(zip(labels, yours, strict=True)), dict(zip(labels, expected, strict=True)), **told)


@pytest.mark.parametrize("max_tokens", [7, 3, 2, 1, 300])
@pytest.mark.parametrize("num_prompt", [3, 1, 40])
def test_without_drafts_the_step_that_brings_the_last_token_is_the_last_one(
    phase8: ModuleType, num_prompt: int, max_tokens: int
) -> None:
    check_row(
        scheduling_of(phase8, 0),
        [in_flight(num_prompt, known, max_tokens, 0, 0) for known in range(max_tokens)],
        [known == max_tokens - 1 for known in range(max_tokens)],
        f"max_tokens={max_tokens}; one step is in flight, which samples one token",
    )


def test_a_long_answer_ends_like_a_short_one(phase8: ModuleType) -> None:
    check_row(
        scheduling_of(phase8, 0),
        [in_flight(40, known, 100_000, 0, 0) for known in (50_000, 99_998, 99_999)],
        [False, False, True],
        "max_tokens=100,000; one step is in flight, which samples one token",
    )


@pytest.mark.parametrize("max_tokens", [8, 3, 2, 1])
@pytest.mark.parametrize(("num_drafts", "most"), [(2, 2), (1, 1), (1, 4), (4, 4), (0, 3), (16, 16)])
def test_with_drafts_only_one_token_is_certain(phase8: ModuleType, max_tokens: int, num_drafts: int, most: int) -> None:
    check_row(
        scheduling_of(phase8, most),
        [in_flight(3, known, max_tokens, num_drafts, most) for known in range(max_tokens)],
        [known == max_tokens - 1 for known in range(max_tokens)],
        f"max_tokens={max_tokens}; one step is in flight, which verifies {counted(num_drafts, 'draft')} and samples",
    )


@pytest.mark.parametrize("max_tokens", [1, 2])
def test_a_prompt_of_which_a_part_is_computed_is_not_over(phase8: ModuleType, max_tokens: int) -> None:
    check_row(
        scheduling_of(phase8, 0),
        [request_with(8, computed=computed, max_tokens=max_tokens) for computed in range(8)],
        [False] * 8,
        f"max_tokens={max_tokens}; a prompt is computed in chunks, none of which samples yet",
    )


@pytest.mark.parametrize("most", [0, 2])
def test_a_request_that_the_last_step_left_out_is_not_over(phase8: ModuleType, most: int) -> None:
    check_row(
        scheduling_of(phase8, most),
        [request_with(3, known, computed=2 + known, max_tokens=5, drafts=[-1] * most) for known in range(1, 5)],
        [False] * 4,
        "max_tokens=5; the budget of the step in flight was used up by other requests",
    )


def test_a_resumed_request_is_not_over_before_it_samples(phase8: ModuleType) -> None:
    check_row(
        scheduling_of(phase8, 0),
        [*(request_with(3, 4, computed=computed, max_tokens=5) for computed in range(7)), in_flight(3, 4, 5, 0, 0)],
        [*[False] * 7, True],
        "max_tokens=5; a preempted request is computed again in chunks, and samples with the last one",
    )


@pytest.mark.parametrize("seed", range(3))
def test_random_moments_of_living_requests(phase8: ModuleType, answers: Answers, seed: int) -> None:
    # A request that is over may be preempted and resumed, or its id be used again.
    rng = random.Random(seed)
    living, most = Living(rng), rng.choice([0, 2, 7])
    scheduling = scheduling_of(phase8, most)
    for _ in range(100):
        num_outputs, num_drafts = rng.randint(0, 12), rng.randint(0, most)
        max_tokens = num_outputs + rng.choice([1, 1, 2, 2, 3, 500])
        moment = in_flight(rng.randint(1, 30), num_outputs, max_tokens, num_drafts, most)
        if rng.random() < 0.3:  # nothing in flight samples for it
            moment.num_output_placeholders, moment.num_computed_tokens = 0, rng.randrange(moment.num_tokens)
        moment.request_id = rng.choice("AAB")
        kept = ("num_output_placeholders", "spec_token_ids", "sampling_params")
        request = living.now(varied(moment, rng, keep=kept))
        expected = answers(lambda: scheduling.is_surely_over(request))  # noqa: B023
        why = f"max_tokens={max_tokens}; the object was asked before, about requests of this name at other moments"
        check_row(scheduling, [request], [expected], why)
