"""Checks that several tasks of phase 5 use."""

import random
from collections.abc import Sequence
from copy import copy
from numbers import Integral
from types import ModuleType

from course.labtest.expect import Told, expect_equal, expect_unchanged
from course.labtest.moments import Living, told_of_fields, told_of_memory, varied
from course.labtest.phase5.memories import request_in
from course.labtest.recorded import Answers
from course.labtest.support import fields_of
from mini_vllm.core.interfaces import ChunkPolicy
from mini_vllm.core.request import Request, RequestStatus

WAITING, RUNNING, PREEMPTED = RequestStatus.WAITING, RequestStatus.RUNNING, RequestStatus.PREEMPTED

RULE_OF_CAPS = "A request gets the tokens it has not computed, cut by the caps in their order."

USED_BEFORE = "\nthe policy was asked before, about this request at other moments and about others of its name"
ALONE = "a new policy, asked about a copy of the request"
HINT_OF_CAPS = {
    WAITING: "how many tokens are left by the argument, and which caps hold for a request that is not RUNNING?",
    PREEMPTED: "a preempted request waits like others: how many tokens are left by the argument, and which caps hold?",
    RUNNING: "how many tokens are left to compute, and which caps hold for a request that is RUNNING already?",
}


def policy_of(
    phase5: ModuleType, *, threshold: int = 0, max_model_len: int = 1000, chunking: bool = True, guard: bool = False
) -> ChunkPolicy:
    """Return your policy; another one with other settings is made after it. Settings at their default are left out."""

    def clamp(num_new: int, budget: int, threshold: int) -> int:  # local and odd on purpose: it answers task 1.1
        return len(range(num_new)[: threshold or None][: max(0, budget)])

    settings = ({} if chunking else {"enable_chunked_prefill": False}) | ({"admission_guard": True} if guard else {})
    policy: ChunkPolicy = phase5.ChunkedPrefillPolicy(clamp, threshold, max_model_len, **settings)
    others = {"enable_chunked_prefill": not chunking, "admission_guard": not guard}
    phase5.ChunkedPrefillPolicy(clamp, threshold + 7, max_model_len + 9, **others)  # state of the class would show
    return policy


def expect_same(request: Request, before: dict[str, object], *, method: str, situation: str) -> None:
    """Fail if the call has changed the request."""
    expect_unchanged(
        fields_of(request),
        before,
        rule=f"{method} returns an answer and changes nothing: the scheduler owns the request.",
        situation=f"request {request.request_id}; {situation}",
        hint="which line of yours assigns to the request, or to a list that belongs to it?",
    )


def check_caps(
    phase5: ModuleType,
    request: Request,
    num_computed: int,
    *,
    budget: int,
    expected: int | Answers,
    threshold: int = 0,
    max_model_len: int = 1000,
    chunking: bool = True,
    used_before: ChunkPolicy | None = None,
    rule: str = RULE_OF_CAPS,
    hint: str = "",
) -> None:
    policy = used_before or policy_of(phase5, threshold=threshold, max_model_len=max_model_len, chunking=chunking)
    before, status = fields_of(request), request.status
    situation = (
        f"{status.name} request of {request.num_prompt_tokens} prompt and {request.num_output_tokens} generated "
        f"tokens, its own counter {request.num_computed_tokens}, preempted {request.num_preemptions}x so far\n"
        f"num_new_tokens(request, {num_computed}, {budget}) with "
        f"threshold={threshold or 'off'}  max_model_len={max_model_len}  chunked prefill {'on' if chunking else 'off'}"
        + (USED_BEFORE if used_before else "")
    )
    yours = policy.num_new_tokens(request, num_computed, budget)
    right = expected(yours) if isinstance(expected, Answers) else expected
    if not isinstance(yours, Integral):
        rule, hint = "num_new_tokens returns a whole number.", "which operation of yours gives something else?"
        if yours is None:
            hint = "does every path through num_new_tokens return a number, the one that refuses too?"
        expect_equal(f"{yours!r}, a {type(yours).__name__}", right, rule=rule, situation=situation, hint=hint)
    told: Told = {"rule": rule, "situation": situation, "hint": hint or HINT_OF_CAPS[status]}
    if used_before and yours != right:

        def ask(copies: Sequence[Request]) -> int:
            new = policy_of(phase5, threshold=threshold, max_model_len=max_model_len, chunking=chunking)
            return new.num_new_tokens(copies[0], num_computed, budget)

        told = told_of_fields(told, [request], ask, right)
        told = told_of_memory(told, lambda: ask([copy(request)]), right, ALONE)
    expect_equal(yours, right, **told)
    expect_same(request, before, method="num_new_tokens", situation=situation)


def compare_random_caps(phase5: ModuleType, answers: Answers, seed: int, *, chunking: bool) -> None:
    rng = random.Random(seed)
    living = Living(rng)
    for number in range(200):
        if number % 8 == 0:
            most = rng.choice([60, 60, 3000])
            max_model_len, threshold = rng.randint(8, most), rng.choice([0, 0, rng.randint(1, most // 2)])
            policy = policy_of(phase5, threshold=threshold, max_model_len=max_model_len, chunking=chunking)
        status = rng.choice([WAITING, RUNNING, PREEMPTED])
        num_prompt = rng.randint(1, max_model_len)
        num_outputs = 0 if status is WAITING else rng.randint(0, max_model_len + 1 - num_prompt)
        num_computed = rng.randint(0, min(num_prompt + num_outputs, max_model_len) - 1)
        request = request_in(status, rng.choice("AAB"), num_prompt, num_outputs, computed=num_computed)
        request = living.now(varied(request, rng))
        budget = rng.choice([rng.randint(0, 40), rng.randint(1, max_model_len)])
        check_caps(
            phase5,
            request,
            num_computed,
            budget=budget,
            expected=answers,
            threshold=threshold,
            max_model_len=max_model_len,
            chunking=chunking,
            used_before=policy,
        )
