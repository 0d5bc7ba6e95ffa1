"""Graded tests of task 5.3."""

from types import ModuleType

import pytest

from course.labtest.expect import expect_equal
from course.labtest.phase5.cases import RUNNING, WAITING, expect_same, policy_of
from course.labtest.phase5.memories import request_in
from course.labtest.support import fields_of


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
    policy = policy_of(phase5)
    for counter in (0, num_computed, num_prompt + num_outputs):
        request = request_in(RUNNING, "A", num_prompt, num_outputs, computed=counter)
        situation = (
            f"{num_prompt} prompt and {num_outputs} generated tokens; should_sample(request, {num_computed}) "
            f"while the request's own counter is {counter}"
        )
        before = fields_of(request)
        yours = policy.should_sample(request, num_computed)
        expect_equal(
            yours,
            expected,
            rule="A request samples in the step that computes its last known token, generated ones included.",
            situation=situation,
            hint="the logits of a token predict the next one: after which token is the next one not known yet?",
        )
        expect_same(request, before, method="should_sample", situation=situation)


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
    expect_equal(
        yours,
        [(num_new, step == len(chunks)) for step, num_new in enumerate(chunks, start=1)],
        rule="A long prompt is computed chunk by chunk, and only its last chunk gives a token.",
        situation=f"{num_prompt} prompt and {num_outputs} generated tokens, threshold={threshold or 'off'}, "
        f"budget={budget}; one pair (tokens, samples) per step",
        hint="your chunks have other lengths: do the tests of task 5.1 pass?"
        if [num_new for num_new, _ in yours] != chunks
        else "which of these chunks computes the last known token?",
    )
