"""Graded tests of task 8.3: requests from their prompt to their last token, in the engine's own scheduler.

A mistake in one method shows in most of them. Their names hold `_agree`, so they are shown once the tests of the single
methods pass.
"""

import random
from collections.abc import Mapping
from types import ModuleType
from zlib import crc32

import pytest

from course.labtest.expect import expect_equal, explained
from course.labtest.phase8.small_engine import ANSWERS, SmallEngine
from course.views.text import counted
from mini_vllm.core.request import Request
from mini_vllm.runner.fake_model_runner import fake_continuation
from mini_vllm.sampling_params import SamplingParams

HINT = (
    "each share is right for its plan. Do the tests of tasks 8.1 and 8.2 pass? If so: which plan is the first that is "
    "wrong?"
)
RULE = "Planning ahead changes when a step is planned. The tokens are the same as without."


def truth(request: Request) -> list[int]:
    """Return what the model generates for a request alone, up to its stop token."""
    params = request.sampling_params
    outputs = fake_continuation(request.prompt_token_ids, params.max_tokens, ANSWERS)
    stops = [index for index, token_id in enumerate(outputs) if token_id in params.stop_token_ids]
    return outputs[: stops[0] + 1] if stops else outputs


def make(name: str, num_prompt: int, max_tokens: int, stop: tuple[int, ...] = ()) -> Request:
    prompt = [crc32(f"{name}:{place}".encode()) % 40 for place in range(num_prompt)]
    return Request(name, prompt, SamplingParams(max_tokens=max_tokens, stop_token_ids=stop))


def engine_for(phase8: ModuleType, requests: list[Request], num_drafts: int, budget: int = 16) -> SmallEngine:
    """Return an engine whose drafter knows the true outputs, and gets about half of them wrong."""
    true_tokens = {request.request_id: truth(request) for request in requests}

    def guess(name: str, num_outputs: int) -> list[int]:
        tokens = true_tokens[name][num_outputs : num_outputs + num_drafts + 1]
        is_wrong = crc32(f"{name}{num_outputs}".encode()) % (2 * num_drafts)
        return [token + (place == is_wrong) for place, token in enumerate(tokens)][: num_drafts + 1 - is_wrong % 2]

    engine = SmallEngine(phase8, num_drafts=num_drafts, budget=budget, guess=guess if num_drafts else None)
    for request in requests:
        engine.add(request)
    return engine


def check_run(
    engine: SmallEngine, situation: str, *, preempts: Mapping[int, str] | None = None, num_wasted: int | None = None
) -> None:
    lines = [situation, *(f"{name}: prompt {one.prompt_token_ids}" for name, one in engine.requests.items())]
    with explained(lines, rule=RULE):
        engine.run(preempts)
    wanted = {name: truth(request) for name, request in engine.requests.items()}
    plans = [f"plan {number}: {plan}" for number, plan in enumerate(engine.plans[:8])]
    expect_equal(engine.outputs(), wanted, rule=RULE, situation=[*lines, *plans], hint=HINT)
    if num_wasted is not None:
        expect_equal(
            {"tokens computed in vain": engine.num_wasted_tokens},
            {"tokens computed in vain": num_wasted},
            rule="Without drafts a step is in vain only after a stop token, because that cannot be seen coming.",
            situation=[*lines, *plans],
            hint="in which of these plans is a request whose last token was on its way?",
        )


@pytest.mark.parametrize("num_drafts", [0, 2])
def test_the_shortest_answers_agree_with_those_of_the_model_alone(phase8: ModuleType, num_drafts: int) -> None:
    requests = [make(name, 3, max_tokens) for name, max_tokens in [("A", 1), ("B", 2), ("C", 3)]]
    check_run(engine_for(phase8, requests, num_drafts), "max_tokens 1, 2 and 3", num_wasted=None if num_drafts else 0)


@pytest.mark.parametrize("num_drafts", [0, 1, 2, 4])
@pytest.mark.parametrize("budget", [5, 40])
def test_answers_agree_with_those_without_planning_ahead(phase8: ModuleType, num_drafts: int, budget: int) -> None:
    requests = [make("A", 12, 20), make("B", 1, 9), make("C", 7, 14)]
    at_most = counted(num_drafts, "draft")
    check_run(engine_for(phase8, requests, num_drafts, budget), f"{at_most} at most, budget {budget}")


@pytest.mark.parametrize("place", [0, 1, 4])
def test_answers_agree_if_a_stop_token_is_found_one_step_late(phase8: ModuleType, place: int) -> None:
    stop = truth(make("A", 5, 20))[place]
    requests = [make("A", 5, 20, (stop,)), make("B", 4, 12)]
    check_run(engine_for(phase8, requests, 0), f"the stop token of A is {stop}", num_wasted=1)


@pytest.mark.parametrize("num_drafts", [0, 3])
@pytest.mark.parametrize("step", range(1, 6))
def test_answers_of_preempted_requests_agree(phase8: ModuleType, step: int, num_drafts: int) -> None:
    requests = [make("A", 6, 10), make("B", 9, 10)]
    engine = engine_for(phase8, requests, num_drafts, budget=8)
    check_run(engine, f"B is preempted in step {step}, with results in flight", preempts={step: "B"})


def test_the_others_agree_if_a_request_is_aborted(phase8: ModuleType) -> None:
    requests = [make("A", 6, 10), make("B", 5, 10)]
    engine = engine_for(phase8, requests, 2)
    with explained(["A is aborted in step 3, with results in flight"], rule=RULE):
        engine.run(aborts={3: "A"})
    expect_equal(
        {"A, so far": truth(requests[0])[: requests[0].num_output_tokens], "B": requests[1].output_token_ids},
        {"A, so far": requests[0].output_token_ids, "B": truth(requests[1])},
        rule="Results of a request that has gone are passed over; the others go on.",
        situation="A is aborted in step 3, with results in flight",
        hint="does one of your methods remember anything about a request?",
    )


@pytest.mark.parametrize("num_drafts", [0, 1, 3])
@pytest.mark.parametrize("seed", range(3))
def test_random_requests_agree(phase8: ModuleType, seed: int, num_drafts: int) -> None:
    rng = random.Random(seed)
    for _ in range(6):
        requests = [
            make(
                f"{name}{seed}",
                rng.randint(1, 15),
                rng.randint(1, 15),
                tuple(rng.sample(range(40), rng.choice([0, 2]))),
            )
            for name in "ABCD"
        ]
        preempts = {step: rng.choice(requests).request_id for step in range(40) if rng.random() < 0.15}
        engine = engine_for(phase8, requests, num_drafts, rng.choice([4, 9, 60]))
        check_run(engine, f"preempted before steps: {preempts}", preempts=preempts)
