"""Graded tests of task 5.3."""

import random
from collections.abc import Sequence
from copy import copy
from types import ModuleType

import pytest

from course.labtest.expect import Told, expect_equal
from course.labtest.moments import Living, told_of_fields, told_of_memory, varied
from course.labtest.phase5.cases import ALONE, RUNNING, USED_BEFORE, WAITING, expect_same, policy_of
from course.labtest.phase5.memories import request_in
from course.labtest.recorded import Answers
from course.labtest.support import fields_of
from mini_vllm.core.interfaces import ChunkPolicy
from mini_vllm.core.request import Request


def check_sampling(
    phase5: ModuleType,
    policy: ChunkPolicy,
    request: Request,
    num_computed: int,
    expected: bool | Answers,
    max_model_len: int,
    *,
    is_used: bool,
) -> None:
    situation = (
        f"{request.num_prompt_tokens} prompt and {request.num_output_tokens} generated tokens; should_sample(request, "
        f"{num_computed}) while the request's own counter is {request.num_computed_tokens}; "
        f"max_model_len={max_model_len}" + (USED_BEFORE if is_used else "")
    )
    before = fields_of(request)
    yours = policy.should_sample(request, num_computed)
    right = expected(bool(yours)) if isinstance(expected, Answers) else expected
    told: Told = {
        "rule": "A request samples in the step that computes its last known token, generated ones included.",
        "situation": situation,
        "hint": f"after this step {num_computed} of its known tokens are computed, by the argument: how many are "
        "there, and what does your line compare?",
    }
    if not isinstance(yours, bool):
        told["hint"] = "`should_sample` returns a bool, True or False. What does yours return here?"
    elif is_used and yours != right:

        def ask(copies: Sequence[Request]) -> bool:
            return policy_of(phase5, max_model_len=max_model_len).should_sample(copies[0], num_computed)

        told = told_of_fields(told, [request], ask, right)
        told = told_of_memory(told, lambda: ask([copy(request)]), right, ALONE)
    expect_equal(yours, right, **told)
    expect_same(request, before, method="should_sample", situation=situation)


@pytest.mark.parametrize(
    ("num_prompt", "num_outputs", "num_computed", "expected"),
    [
        (10, 0, 4, False),
        (10, 0, 9, False),
        (10, 0, 10, True),
        (10, 3, 13, True),
        (10, 3, 10, False),  # a resumed request at the end of its prompt
        (10, 3, 12, False),
        (1, 0, 1, True),
        (2000, 0, 1999, False),
        (2000, 0, 2000, True),
        (2000, 48, 2048, True),
    ],
)
def test_a_token_is_sampled_only_after_the_last_known_token(
    phase5: ModuleType, num_prompt: int, num_outputs: int, num_computed: int, expected: bool
) -> None:
    # The longest model, and the shortest in which such a request still runs: its next token is the last one.
    for max_model_len in (10**6, num_prompt + num_outputs + 1):
        policy = policy_of(phase5, max_model_len=max_model_len)
        for counter in (0, num_computed, num_prompt + num_outputs):
            request = request_in(RUNNING, "A", num_prompt, num_outputs, computed=counter)
            check_sampling(phase5, policy, request, num_computed, expected, max_model_len, is_used=counter > 0)


@pytest.mark.parametrize("seed", range(3))
def test_random_moments_of_living_requests(phase5: ModuleType, answers: Answers, seed: int) -> None:
    rng = random.Random(seed)
    living, max_model_len = Living(rng), 250 * (seed + 1)
    policy = policy_of(phase5, max_model_len=max_model_len)
    for _ in range(150):
        num_prompt, num_outputs = (
            rng.choice([rng.randint(1, 9), rng.randint(1, max_model_len - 100), max_model_len - 1]),
            rng.choice([0, rng.randint(1, 90)]),
        )
        num_outputs = min(num_outputs, max_model_len - 1 - num_prompt)
        num_tokens = num_prompt + num_outputs
        borders = [num_tokens, num_tokens, num_tokens - 1, num_prompt, rng.randint(1, num_tokens)]
        request = request_in(RUNNING, rng.choice("AAB"), num_prompt, num_outputs, rng.randint(0, num_tokens))
        request, num_computed = living.now(varied(request, rng)), max(1, rng.choice(borders))
        check_sampling(phase5, policy, request, num_computed, answers, max_model_len, is_used=True)


@pytest.mark.parametrize(
    ("num_prompt", "num_outputs", "threshold", "budget", "chunks"),
    [
        (50, 0, 16, 20, [16, 16, 16, 2]),
        (48, 0, 16, 20, [16, 16, 16]),
        (5, 0, 0, 2, [2, 2, 1]),
        (10, 7, 8, 100, [8, 8, 1]),
    ],
)
def test_chunks_add_up_and_only_the_last_samples(
    phase5: ModuleType, num_prompt: int, num_outputs: int, threshold: int, budget: int, chunks: list[int]
) -> None:
    policy = policy_of(phase5, threshold=threshold)
    request = request_in(WAITING, "A", num_prompt, num_outputs)
    yours: list[tuple[int, bool]] = []
    for _ in chunks:
        num_new = int(policy.num_new_tokens(request, request.num_computed_tokens, budget))
        request.status = RUNNING
        request.num_computed_tokens += num_new
        yours.append((num_new, bool(policy.should_sample(request, request.num_computed_tokens))))
    other = next((step for step, num_new in enumerate(chunks) if yours[step][0] != num_new), len(chunks))
    expect_equal(
        yours,
        [(num_new, step == len(chunks)) for step, num_new in enumerate(chunks, start=1)],
        rule="A long prompt is computed chunk by chunk, and only its last chunk gives a token.",
        situation=f"{num_prompt} prompt and {num_outputs} generated tokens, threshold={threshold or 'off'}, "
        f"budget={budget}; one pair (tokens, samples) per step",
        hint=f"by the caps, how many tokens does step number {other + 1} get after the {sum(chunks[:other])} before it?"
        if other < len(chunks)
        else "which of these chunks computes the last known token?",
    )
