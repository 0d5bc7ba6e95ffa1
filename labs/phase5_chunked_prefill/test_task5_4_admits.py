"""Graded tests of task 5.4."""

import random
from collections.abc import Sequence
from types import ModuleType

import pytest

from course.labtest.phase5.cases import PREEMPTED, RUNNING, WAITING, policy_of
from course.labtest.phase5.reference_policy import (
    FrozenKV,
    naive_admits,
    random_memory,
    request_in,
)
from course.labtest.support import expect_rows
from mini_vllm.core.request import Request


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


@pytest.mark.parametrize("num_tokens", [1, 4, 5, 8, 9])
@pytest.mark.parametrize("num_free", [1, 2, 3])
def test_guard_counts_all_tokens_not_the_first_chunk(phase5: ModuleType, num_tokens: int, num_free: int) -> None:
    check_guard(phase5, request_in(WAITING, "W", num_tokens), [], [], FrozenKV(4, num_free, {}))


def test_guard_counts_what_a_victim_had_generated(phase5: ModuleType) -> None:
    victim = request_in(PREEMPTED, "W", 8, num_outputs=5)
    assert not check_guard(phase5, victim, [], [], FrozenKV(4, 3, {}))
    assert check_guard(phase5, victim, [], [], FrozenKV(4, 4, {}))


@pytest.mark.parametrize("num_blocks", range(4, 10))
def test_guard_counts_free_hit_blocks_as_taken(phase5: ModuleType, num_blocks: int) -> None:
    # A holds 1 and 2 and has room for its 8 tokens; W's 17 tokens are 5 blocks, the first ones of them hits.
    running = [request_in(RUNNING, "A", 8, computed=7)]
    kv = FrozenKV(4, num_blocks, {"A": [1, 2]})
    for hit_blocks in ([], [1], [1, 2], [4], [3, 4], [1, 2, 3], [1, 2, 3, 4]):
        check_guard(phase5, request_in(WAITING, "W", 17), hit_blocks, running, kv)


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


@pytest.mark.parametrize("seed", range(5))
def test_random_memories_against_the_naive_count(phase5: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    answers = [check_guard(phase5, *random_memory(rng)) for _ in range(200)]
    assert 40 < sum(answers) < 160, "the random memories are too easy: nearly all have the same answer"
