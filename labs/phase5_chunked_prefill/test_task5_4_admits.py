"""Graded tests of task 5.4."""

import random
from collections.abc import Sequence
from copy import copy
from types import ModuleType

import pytest

from course.labtest.cost import check_keeps_nothing
from course.labtest.expect import Told, expect_equal
from course.labtest.moments import KEPT, NOTHING_KEPT, Living, told_of_fields, told_of_memory
from course.labtest.phase5.cases import PREEMPTED, RUNNING, WAITING, expect_same, policy_of
from course.labtest.phase5.memories import FrozenKV, account_of, blocks_counted, random_memory, request_in
from course.labtest.recorded import Answers
from course.labtest.support import fields_of
from mini_vllm.core.interfaces import ChunkPolicy
from mini_vllm.core.request import Request

RULE_OF_GUARD = (
    "With the guard, a request is admitted only if the free blocks hold all its tokens, after what the running "
    "requests need for theirs and one block each to grow."
)
ALONE_WITH_MEMORY = "a new policy, asked about copies of the requests and of the memory"


def check_guard(
    phase5: ModuleType,
    answers: Answers,
    request: Request,
    hit_blocks: Sequence[int],
    running: Sequence[Request],
    kv: FrozenKV,
    used_before: ChunkPolicy | None = None,
) -> bool:
    policies = {
        "plain": used_before or policy_of(phase5, guard=True),
        "with a threshold of 3": policy_of(phase5, guard=True, threshold=3),
        "chunking off": policy_of(phase5, guard=True, chunking=False),
    }
    needed, promised = answers(lambda: blocks_counted(policies["plain"], request, hit_blocks, running, kv))
    expected = bool(needed + promised <= kv.num_free_blocks)
    account = account_of(request, hit_blocks, running, kv, needed, promised)
    if used_before:
        account += "\nthe plain policy was asked before, about these requests and this memory at other moments"
    before = {one.request_id: fields_of(one) for one in (request, *running)}
    contents, hits, order = kv.contents(), list(hit_blocks), [one.request_id for one in running]
    yours = {name: policy.admits(request, hit_blocks, running, kv) for name, policy in policies.items()}
    for one in (request, *running):
        expect_same(one, before[one.request_id], method="admits", situation=account)
    expect_equal(
        {**kv.contents(), "hit blocks": list(hit_blocks), "running": [one.request_id for one in running]},
        {**contents, "hit blocks": hits, "running": order},
        rule="admits only counts: `block_ids` and the lists it is given belong to the engine, which goes on with them.",
        situation=account,
        hint="which of your operations changes a list or a dict in place (append, sort, pop, +=), and whose is it?",
    )
    kinds = {name: type(answer).__name__ for name, answer in yours.items()}
    no_answers = {name: kind for name, kind in kinds.items() if yours[name] != expected and not kind.startswith("bool")}
    expect_equal(
        no_answers,
        dict.fromkeys(no_answers, "bool"),
        rule="admits returns True or False.",
        situation=account,
        hint="what is the value of the expression after your `return`: a yes or no, or a number?",
    )
    told: Told = {
        "rule": RULE_OF_GUARD,
        "situation": account,
        "hint": "needed, promised, free: which of these is another number in your code, or how do you compare them?",
    }
    if yours["plain"] != expected:
        requests = [request, *map(copy, running)]

        def ask(about: list[Request]) -> bool:
            return policy_of(phase5, guard=True).admits(about[0], list(hit_blocks), about[1:], copy(kv))

        told = told_of_fields(told, requests, ask, expected)
        told = told_of_memory(told, lambda: ask(requests), expected, ALONE_WITH_MEMORY) if used_before else told
    else:
        told["hint"] = "the plain policy is right. Rule 8 asks for no threshold and no chunking: where does yours?"
    expect_equal(yours, dict.fromkeys(policies, expected), **told)
    return expected


def test_without_the_guard_every_request_is_admitted(phase5: ModuleType) -> None:
    kv = FrozenKV(4, 2, {"A": [1, 2]})
    running = [request_in(RUNNING, "A", 40, computed=8)]
    policies = {
        "plain": policy_of(phase5),
        "chunking off": policy_of(phase5, chunking=False),
        "with a threshold of 4": policy_of(phase5, threshold=4),
    }
    request = request_in(WAITING, "W", 400)
    expect_equal(
        {name: policy.admits(request, [], running, kv) for name, policy in policies.items()},
        dict.fromkeys(policies, True),
        rule="Without the guard `admits` returns True: whether the first chunk fits, `allocate_slots` decides.",
        situation="2 blocks of 4, A runs and holds both, none is free; W waits with 400 tokens; admission_guard is off",
        hint="which setting of the policy decides whether anything is counted at all?",
    )


@pytest.mark.parametrize("num_tokens", [1, 4, 5, 8, 9])
@pytest.mark.parametrize("num_free", [1, 2, 3])
def test_guard_counts_all_tokens_not_the_first_chunk(
    phase5: ModuleType, answers: Answers, num_tokens: int, num_free: int
) -> None:
    check_guard(phase5, answers, request_in(WAITING, "W", num_tokens), [], [], FrozenKV(4, num_free, {}))


def test_guard_counts_the_generated_tokens_of_a_victim(phase5: ModuleType, answers: Answers) -> None:
    victim = request_in(PREEMPTED, "W", 8, num_outputs=5)
    assert not check_guard(phase5, answers, victim, [], [], FrozenKV(4, 3, {}))
    assert check_guard(phase5, answers, victim, [], [], FrozenKV(4, 4, {}))


@pytest.mark.parametrize("num_blocks", range(4, 10))
def test_guard_counts_free_hit_blocks_as_taken(phase5: ModuleType, answers: Answers, num_blocks: int) -> None:
    # A holds blocks 1 and 2, which have room for its 8 tokens. W's 17 tokens need 5 blocks; the first may be hits.
    running = [request_in(RUNNING, "A", 8, computed=7)]
    kv = FrozenKV(4, num_blocks, {"A": [1, 2]})
    for hit_blocks in ([], [1], [1, 2], [4], [4, 3], [1, 2, 3], [1, 2, 4, 3]):
        check_guard(phase5, answers, request_in(WAITING, "W", 17), hit_blocks, running, kv)


@pytest.mark.parametrize("num_blocks", range(5, 14))
def test_guard_keeps_the_blocks_promised_to_running_requests(
    phase5: ModuleType, answers: Answers, num_blocks: int
) -> None:
    # B is resumed: 11 prompt and 5 generated tokens need 4 blocks. It was served earlier in this step and holds 2
    # already, though only 4 of its tokens are computed. A decodes, with room left in its 2 blocks.
    prefills = request_in(RUNNING, "B", 11, num_outputs=5, computed=4)
    decodes = request_in(RUNNING, "A", 5, num_outputs=2, computed=6)
    kv = FrozenKV(4, num_blocks, {"A": [1, 2], "B": [3, 4]})
    request = request_in(WAITING, "W", 6)
    check_guard(phase5, answers, request, [], [prefills, decodes], kv)
    check_guard(phase5, answers, request, [], [decodes], FrozenKV(4, num_blocks, {"A": [1, 2]}))
    check_guard(phase5, answers, request, [], [prefills], FrozenKV(4, num_blocks, {"B": [3, 4]}))


@pytest.mark.parametrize("num_blocks", range(6, 10))
def test_guard_counts_a_shared_block_for_each_of_its_holders(
    phase5: ModuleType, answers: Answers, num_blocks: int
) -> None:
    # A and B have the same prompt, and with it block 1. Each has room left in its other block.
    running = [request_in(RUNNING, name, 7, computed=6) for name in "AB"]
    kv = FrozenKV(4, num_blocks, {"A": [1, 2], "B": [1, 3]})
    check_guard(phase5, answers, request_in(WAITING, "W", 6), [], running, kv)


@pytest.mark.parametrize("num_blocks", range(7, 10))
def test_guard_counts_the_blocks_that_are_held_for_drafts(
    phase5: ModuleType, answers: Answers, num_blocks: int
) -> None:
    # A drafter with K and V of its own gets blocks ahead: A's 9 tokens need 3 blocks, and A holds 5.
    kv = FrozenKV(4, num_blocks, {"A": [1, 2, 3, 4, 5]})
    check_guard(phase5, answers, request_in(WAITING, "W", 14), [], [request_in(RUNNING, "A", 9, computed=8)], kv)


@pytest.mark.parametrize(
    ("num_running", "num_free"), [(20, 40), (20, 41), (70, 90), (70, 91), (70, 130), (600, 620), (600, 621)]
)
def test_guard_counts_every_one_of_many_running_requests(
    phase5: ModuleType, answers: Answers, num_running: int, num_free: int
) -> None:
    tables = {f"R{index}": [index] for index in range(1, num_running + 1)}
    running = [request_in(RUNNING, name, 16, computed=15) for name in tables]
    check_guard(
        phase5, answers, request_in(WAITING, "W", 336), [], running, FrozenKV(16, num_running + num_free, tables)
    )


@pytest.mark.parametrize("num_free", [49_999, 50_000])
def test_guard_counts_to_the_last_of_many_free_blocks(phase5: ModuleType, answers: Answers, num_free: int) -> None:
    check_guard(phase5, answers, request_in(WAITING, "W", 50_000), [], [], FrozenKV(1, num_free, {}))


def test_guard_answers_follow_the_state_of_the_moment(phase5: ModuleType, answers: Answers) -> None:
    policy = policy_of(phase5, guard=True)
    request, other = request_in(WAITING, "W", 9), request_in(RUNNING, "A", 4, computed=3)
    assert check_guard(phase5, answers, request, [], [other], FrozenKV(4, 5, {"A": [1]}), policy)
    other.all_token_ids.append(7)  # A has generated a token, and needs a second block for it
    assert not check_guard(phase5, answers, request, [], [other], FrozenKV(4, 5, {"A": [1]}), policy)
    assert check_guard(phase5, answers, request, [], [other], FrozenKV(4, 6, {"A": [1, 2]}), policy)
    assert not check_guard(phase5, answers, request, [], [other], FrozenKV(4, 5, {"A": [1, 2]}), policy)
    assert check_guard(phase5, answers, request, [1], [other], FrozenKV(4, 5, {"A": [1, 2]}), policy)
    assert check_guard(phase5, answers, request, [], [], FrozenKV(4, 5, {}), policy)
    request.all_token_ids += range(12)
    assert not check_guard(phase5, answers, request, [], [], FrozenKV(4, 5, {}), policy)


def test_requests_leave_nothing_behind(phase5: ModuleType) -> None:
    policy, kv = policy_of(phase5, guard=True), FrozenKV(4, 5, {"A": [1]})

    def use(name: str) -> None:
        request, other = request_in(WAITING, name, 9), request_in(RUNNING, "A", 4, computed=3)
        policy.admits(request, [1], [other], kv)
        policy.num_new_tokens(request, 4, 100)
        policy.should_sample(request, 9)

    what = "requests came and went, each with a call of all three methods"
    check_keeps_nothing(phase5, use, policy, what=what, rule=NOTHING_KEPT, hint=KEPT)


@pytest.mark.parametrize("seed", range(5))
def test_random_memories_against_the_naive_count(phase5: ModuleType, answers: Answers, seed: int) -> None:
    rng = random.Random(seed)
    policy, living, memory = policy_of(phase5, guard=True), Living(rng), FrozenKV(4, 1, {})
    admitted = []
    for _ in range(200):
        request, hit_blocks, running, kv = random_memory(rng)
        vars(memory).update(vars(kv))  # the engine has one memory, which changes
        running = list(map(living.now, running))
        admitted.append(check_guard(phase5, answers, living.now(request), hit_blocks, running, memory, policy))
    assert 40 < sum(admitted) < 170, "the random memories are too easy: nearly all have the same answer"
