"""Graded tests of phase 5."""

import random
from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType

import pytest

from course.labtest.phase5.reference_policy import (
    FrozenKV,
    naive_admits,
    naive_num_new_tokens,
    plain_clamp,
    random_memory,
    request_in,
)
from course.labtest.phase5.symptoms import Question, symptom_of_caps
from course.labtest.support import expect_equal, expect_rows
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.seams.interfaces import ChunkPolicy

WAITING, RUNNING, PREEMPTED = RequestStatus.WAITING, RequestStatus.RUNNING, RequestStatus.PREEMPTED

RULE_OF_CAPS = "A request gets the tokens it has not computed, cut by the caps in their order."
HINT_OF_CAPS = {
    WAITING: "which caps hold for a request that is not RUNNING, and in which order?",
    PREEMPTED: "a preempted request waits like any other: which caps hold for it?",
    RUNNING: "which caps hold for a request that is RUNNING already?",
}


def policy_of(
    phase5: ModuleType, *, threshold: int = 0, max_model_len: int = 1000, chunking: bool = True, guard: bool = False
) -> ChunkPolicy:
    """Return your policy; one with other settings is made behind it. A setting that has its default is not named."""
    settings = ({} if chunking else {"enable_chunked_prefill": False}) | ({"admission_guard": True} if guard else {})
    policy: ChunkPolicy = phase5.ChunkedPrefillPolicy(plain_clamp, threshold, max_model_len, **settings)
    others = {"enable_chunked_prefill": not chunking, "admission_guard": not guard}
    phase5.ChunkedPrefillPolicy(plain_clamp, threshold + 7, max_model_len + 9, **others)
    return policy


def check_caps(
    phase5: ModuleType,
    request: Request,
    num_computed: int,
    *,
    budget: int,
    expected: int,
    threshold: int = 0,
    max_model_len: int = 1000,
    chunking: bool = True,
    used_before: ChunkPolicy | None = None,
) -> None:
    policy = used_before or policy_of(phase5, threshold=threshold, max_model_len=max_model_len, chunking=chunking)
    counter = request.num_computed_tokens
    yours = policy.num_new_tokens(request, num_computed, budget)
    rule, hint = RULE_OF_CAPS, HINT_OF_CAPS[request.status]
    if yours != expected:
        question = Question(request, num_computed, budget, threshold, max_model_len, chunking)
        others = replace(question, threshold=threshold + 7, max_model_len=max_model_len + 9, chunking=not chunking)
        rule, hint = next(filter(any, [symptom_of_caps(question, yours, others), (rule, hint)]))
    expect_rows(
        {
            "tokens in this step": (yours, expected),
            "the request's own counter afterwards": (request.num_computed_tokens, counter),
        },
        rule=rule,
        situation=f"{request.status.name} request of {request.num_tokens} tokens, "
        f"argument num_computed_tokens={num_computed}\n"
        f"token_budget={budget}  threshold={threshold or 'off'}  max_model_len={max_model_len}  "
        f"chunked prefill {'on' if chunking else 'off'}  preempted {request.num_preemptions}x so far"
        + ("\nthe policy has answered for other requests of the same name before" if used_before else ""),
        hint=hint,
    )


# Task 5.1: the caps


@pytest.mark.task5_1
@pytest.mark.parametrize(
    ("num_tokens", "num_computed", "threshold", "budget", "expected"),
    [
        (30, 0, 0, 100, 30),  # all it wants
        (30, 0, 0, 12, 12),  # the budget
        (30, 0, 16, 100, 16),  # the threshold
        (30, 0, 16, 12, 12),  # both: the smaller one
        (30, 0, 12, 16, 12),
        (30, 16, 16, 100, 14),  # the rest is under the threshold
        (30, 20, 0, 8, 8),
        (30, 14, 16, 100, 16),  # the rest is exactly the threshold
        (30, 29, 16, 100, 1),  # one token behind: a decode
        (30, 0, 1, 100, 1),
        (30, 0, 0, 0, 0),
    ],
)
@pytest.mark.parametrize("status", [WAITING, RUNNING, PREEMPTED], ids=lambda status: status.name.lower())
def test_threshold_and_budget(
    phase5: ModuleType,
    status: RequestStatus,
    num_tokens: int,
    num_computed: int,
    threshold: int,
    budget: int,
    expected: int,
) -> None:
    request = request_in(status, "A", num_tokens, computed=num_computed)
    check_caps(phase5, request, num_computed, budget=budget, expected=expected, threshold=threshold)


@pytest.mark.task5_1
def test_a_resumed_request_wants_its_outputs_too(phase5: ModuleType) -> None:
    check_caps(phase5, request_in(PREEMPTED, "victim", 10, num_outputs=7), 0, budget=100, expected=17)
    check_caps(phase5, request_in(PREEMPTED, "victim", 10, num_outputs=7), 12, budget=100, expected=5)
    check_caps(phase5, request_in(RUNNING, "runner", 10, num_outputs=7, computed=8), 8, budget=100, expected=9)


@pytest.mark.task5_1
@pytest.mark.parametrize(
    ("status", "num_tokens", "num_computed", "expected"),
    [
        (RUNNING, 32, 0, 31),
        (RUNNING, 32, 30, 1),
        (RUNNING, 32, 31, 0),
        (RUNNING, 31, 20, 11),
        (RUNNING, 30, 20, 10),
        (RUNNING, 34, 24, 7),
        (WAITING, 32, 0, 32),
        (WAITING, 32, 16, 16),
        (PREEMPTED, 32, 0, 32),
    ],
)
def test_last_position_of_the_model_caps_who_runs(
    phase5: ModuleType, status: RequestStatus, num_tokens: int, num_computed: int, expected: int
) -> None:
    request = request_in(status, "A", num_tokens, computed=num_computed)
    check_caps(phase5, request, num_computed, budget=100, expected=expected, max_model_len=32)


@pytest.mark.task5_1
@pytest.mark.parametrize("seed", range(5))
def test_random_caps_against_the_naive_count(phase5: ModuleType, seed: int) -> None:
    compare_random_caps(phase5, seed, chunking=True)


def compare_random_caps(phase5: ModuleType, seed: int, *, chunking: bool) -> None:
    rng = random.Random(seed)
    for number in range(200):
        if number % 8 == 0:
            max_model_len, threshold = rng.randint(8, 60), rng.choice([0, 0, rng.randint(1, 30)])
            policy = policy_of(phase5, threshold=threshold, max_model_len=max_model_len, chunking=chunking)
        status = rng.choice([WAITING, RUNNING, PREEMPTED])
        num_prompt = rng.randint(1, max_model_len)
        num_outputs = 0 if status is WAITING else rng.randint(0, max_model_len + 1 - num_prompt)
        num_computed = rng.randint(0, min(num_prompt + num_outputs, max_model_len) - 1)
        request = request_in(status, "A", num_prompt, num_outputs, computed=num_computed)
        request.num_preemptions = rng.choice([0, 2]) if num_outputs or status is PREEMPTED else 0
        budget = rng.randint(1, 40)
        expected = naive_num_new_tokens(
            request, num_computed, budget, threshold=threshold, max_model_len=max_model_len, chunking=chunking
        )
        check_caps(
            phase5,
            request,
            num_computed,
            budget=budget,
            expected=expected,
            threshold=threshold,
            max_model_len=max_model_len,
            chunking=chunking,
            used_before=policy,
        )


# Task 5.2: chunked prefill switched off


@pytest.mark.task5_2
@pytest.mark.parametrize("status", [WAITING, PREEMPTED], ids=lambda status: status.name.lower())
@pytest.mark.parametrize(
    ("num_computed", "threshold", "budget", "expected"),
    [
        (0, 0, 29, 0),  # 30 tokens do not fit 29
        (0, 0, 30, 30),
        (16, 0, 13, 0),  # behind a hit of 16 it needs 14
        (16, 0, 14, 14),
        (0, 16, 20, 16),  # the threshold still cuts, and what it leaves fits
        (0, 16, 16, 16),
        (0, 16, 15, 0),  # what it leaves does not fit
        (0, 40, 29, 0),  # the threshold is larger than the wish
        (16, 16, 14, 14),
    ],
)
def test_without_chunking_a_waiting_request_comes_whole_or_not(
    phase5: ModuleType, status: RequestStatus, num_computed: int, threshold: int, budget: int, expected: int
) -> None:
    request = request_in(status, "A", 30)
    check_caps(phase5, request, num_computed, budget=budget, expected=expected, threshold=threshold, chunking=False)


@pytest.mark.task5_2
@pytest.mark.parametrize(
    ("num_computed", "threshold", "budget", "expected"), [(16, 16, 9, 9), (16, 0, 9, 9), (0, 16, 9, 9), (29, 0, 1, 1)]
)
def test_without_chunking_a_running_request_still_takes_a_part(
    phase5: ModuleType, num_computed: int, threshold: int, budget: int, expected: int
) -> None:
    request = request_in(RUNNING, "A", 30, computed=num_computed)
    check_caps(phase5, request, num_computed, budget=budget, expected=expected, threshold=threshold, chunking=False)


@pytest.mark.task5_2
@pytest.mark.parametrize("seed", range(5))
def test_random_caps_without_chunking(phase5: ModuleType, seed: int) -> None:
    compare_random_caps(phase5, seed, chunking=False)


# Task 5.3: who samples


@pytest.mark.task5_3
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
    ],
)
def test_only_behind_the_last_known_token(
    phase5: ModuleType, num_prompt: int, num_outputs: int, num_computed: int, expected: bool
) -> None:
    policy = policy_of(phase5)
    for counter in (0, num_computed, num_prompt + num_outputs):
        request = request_in(RUNNING, "A", num_prompt, num_outputs, computed=counter)
        yours = policy.should_sample(request, num_computed)
        expect_equal(
            yours,
            expected,
            rule="A request samples in the step that computes its last known token, generated ones included.",
            situation=f"{num_prompt} prompt and {num_outputs} generated tokens; should_sample(request, {num_computed}) "
            f"while the request's own counter is {counter}",
            hint=f"the argument says {num_computed}, the counter {counter}. Which of them knows this step?"
            if yours == (counter == request.num_tokens)
            else "the logits behind a token predict the next one: when is the next one not known yet?",
        )


@pytest.mark.task5_3
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
        rule="A long prompt goes in chunk by chunk, and only its last chunk gives a token.",
        situation=f"{num_prompt} prompt and {num_outputs} generated tokens, threshold={threshold or 'off'}, "
        f"budget={budget}; per step (tokens, samples)",
        hint="what does a chunk in the middle of the prompt know about the token behind the prompt?",
    )


# Task 5.4: the admission guard


def check_guard(
    phase5: ModuleType, request: Request, hit_blocks: Sequence[int], running: Sequence[Request], kv: FrozenKV
) -> bool:
    expected, account = naive_admits(request, hit_blocks, running, kv)
    policies = {
        "plain": policy_of(phase5, guard=True),
        "with a threshold of 3": policy_of(phase5, guard=True, threshold=3),
        "chunking off": policy_of(phase5, guard=True, chunking=False),
    }
    yours = {name: policy.admits(request, hit_blocks, running, kv) for name, policy in policies.items()}
    free_hits = [block_id for block_id in hit_blocks if block_id in kv.free_block_ids()]
    lets_in_too_many = free_hits and not expected and all(yours.values())
    expect_rows(
        {name: (answer, expected) for name, answer in yours.items()},
        rule="With the guard, a request comes in only if the free blocks hold all its tokens, after what the running "
        "requests need for theirs and one block each to grow.",
        situation=account,
        hint="the free blocks among the hits: are they still free when the request has them?"
        if lets_in_too_many
        else "which free blocks will be gone when everybody holds what it knows today, and one block more?",
    )
    return expected


@pytest.mark.task5_4
def test_without_the_guard_everybody_is_admitted(phase5: ModuleType) -> None:
    kv = FrozenKV(4, 2, {"A": [1, 2]})
    running = [request_in(RUNNING, "A", 40, computed=8)]
    policies = {
        "nothing free": policy_of(phase5),
        "nothing free, chunking off": policy_of(phase5, chunking=False),
        "nothing free, with a threshold": policy_of(phase5, threshold=4),
    }
    request = request_in(WAITING, "W", 400)
    expect_rows(
        {name: (policy.admits(request, [], running, kv), True) for name, policy in policies.items()},
        rule="Without the guard `admits` says yes: whether the first chunk fits is for `allocate_slots` to say.",
        situation="A runs and holds both blocks; W asks with 400 tokens",
        hint="which setting of the policy decides whether anything is counted at all?",
    )


@pytest.mark.task5_4
@pytest.mark.parametrize("num_tokens", [1, 4, 5, 8, 9])
@pytest.mark.parametrize("num_free", [1, 2, 3])
def test_guard_counts_all_tokens_not_the_first_chunk(phase5: ModuleType, num_tokens: int, num_free: int) -> None:
    check_guard(phase5, request_in(WAITING, "W", num_tokens), [], [], FrozenKV(4, num_free, {}))


@pytest.mark.task5_4
def test_guard_counts_what_a_victim_had_generated(phase5: ModuleType) -> None:
    victim = request_in(PREEMPTED, "W", 8, num_outputs=5)
    assert not check_guard(phase5, victim, [], [], FrozenKV(4, 3, {}))
    assert check_guard(phase5, victim, [], [], FrozenKV(4, 4, {}))


@pytest.mark.task5_4
@pytest.mark.parametrize("num_blocks", range(4, 10))
def test_guard_counts_free_hit_blocks_as_taken(phase5: ModuleType, num_blocks: int) -> None:
    # A holds 1 and 2 and has room for its 8 tokens; W's 17 tokens are 5 blocks, the first ones of them hits.
    running = [request_in(RUNNING, "A", 8, computed=7)]
    kv = FrozenKV(4, num_blocks, {"A": [1, 2]})
    for hit_blocks in ([], [1], [1, 2], [4], [3, 4], [1, 2, 3], [1, 2, 3, 4]):
        check_guard(phase5, request_in(WAITING, "W", 17), hit_blocks, running, kv)


@pytest.mark.task5_4
@pytest.mark.parametrize("num_blocks", range(5, 14))
def test_guard_keeps_what_the_running_were_promised(phase5: ModuleType, num_blocks: int) -> None:
    # A decodes and is at home in its 2 blocks. B comes back from a preemption: 11 prompt and 5 generated tokens are
    # 4 blocks; it was served earlier in this step and holds 2 already, though only 4 of its tokens are computed.
    decodes = request_in(RUNNING, "A", 5, num_outputs=2, computed=6)
    prefills = request_in(RUNNING, "B", 11, num_outputs=5, computed=4)
    kv = FrozenKV(4, num_blocks, {"A": [1, 2], "B": [3, 4]})
    request = request_in(WAITING, "W", 6)
    check_guard(phase5, request, [], [decodes, prefills], kv)
    check_guard(phase5, request, [], [decodes], FrozenKV(4, num_blocks, {"A": [1, 2]}))
    check_guard(phase5, request, [], [prefills], FrozenKV(4, num_blocks, {"B": [3, 4]}))


@pytest.mark.task5_4
@pytest.mark.parametrize("seed", range(5))
def test_random_memories_against_the_naive_count(phase5: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    answers = [check_guard(phase5, *random_memory(rng)) for _ in range(200)]
    assert 40 < sum(answers) < 160, "the random memories are too easy: nearly all have the same answer"
