"""Graded tests of task 3.4: several calls of `make_room`, with RUNNING changing between them."""

import random
from types import ModuleType

import pytest

from course.labtest.cost import check_keeps_nothing
from course.labtest.expect import expect_equal, fail_with_smallest
from course.labtest.phase3.cases import NUM_STATES, SEEDS, runner
from course.labtest.phase3.doubles import ScriptedKV
from course.labtest.phase3.random_room import room_differs
from course.labtest.phase3.room_harness import RoomHarness
from course.labtest.recorded import Answers
from mini_vllm.config import Policy
from mini_vllm.core.request import Request
from mini_vllm.core.step import SchedulerOutput

REMEMBERS = "An object remembers nothing but the policy: a server would never forget the rest."


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_a_request_that_has_joined_running_since_can_be_a_victim(phase3: ModuleType, policy: Policy) -> None:
    preemption = phase3.RecomputePreemption(policy)
    first, second, newcomer = runner("A", 4, 0), runner("B", 4, 1), runner("N", 4, 2)
    harness = RoomHarness([first, second], num_blocks=2)
    rule = "Each call looks at RUNNING as it is now: requests join it and leave it between two calls."
    hint = "what does this call ask memory for, and which victims does it need, by RUNNING as it is now?"
    harness.make_room(preemption, first, 1)
    harness.check(rule, hint, make_room=True, RUNNING=["A"], preempted=[("B", "A", 0)])
    first.num_computed_tokens, second.num_computed_tokens = 8, 4
    first.all_token_ids += range(4)
    second.admit(4)
    harness.running[:] = [first, second, newcomer]
    harness.requests["N"] = newcomer
    harness.waiting.pop_request()
    harness.kv.tables |= {"B": [3], "N": [4]}
    harness.kv.num_usable_blocks = 4
    harness.step = SchedulerOutput(10)
    harness.make_room(preemption, first, 1)
    harness.check(rule, hint, make_room=True, RUNNING=["A", "B"], WAITING=["N"], preempted=[("N", "A", 0)])
    harness.make_room(preemption, first, 5)
    harness.check(
        rule, hint, make_room=True, RUNNING=["A"], WAITING=["B", "N"], preempted=[("N", "A", 0), ("B", "A", 0)]
    )


def test_two_objects_have_a_policy_each(phase3: ModuleType) -> None:
    by_rank, by_place = phase3.RecomputePreemption("priority"), phase3.RecomputePreemption("fcfs")
    for preemption, policy, victim in ((by_rank, "priority", "B"), (by_place, "fcfs", "C")):
        running = [runner("A", 4, 0), runner("B", 4, 2), runner("C", 4, 1)]
        running[0].all_token_ids += range(4)
        harness = RoomHarness(running, num_blocks=3)
        harness.make_room(preemption, running[0], 2, f", policy {policy}; the objects for both policies exist")
        harness.check(
            "Each object of your class has the policy that it was made with.",
            "where does your class keep the policy: in the object, or where all of its objects share it?",
            make_room=True,
            preempted=[(victim, "A", 0)],
        )


def test_an_empty_list_ends_the_preemptions(phase3: ModuleType) -> None:
    running = [runner(name) for name in "ABC"]
    harness = RoomHarness(running, num_blocks=0, tables={}, kv=ScriptedKV([None, []]))
    harness.make_room(phase3.RecomputePreemption("fcfs"), running[0], 1)
    expect_equal(
        {"make_room": harness.answer, "A still runs": running[0] in harness.running},
        {"make_room": True, "A still runs": True},
        rule="allocate_slots returns [] when the last block has room: that is a success, and no other request is "
        "preempted.",
        situation=harness.before,
        hint="memory answers None, then []: what does each mean for A, and what does your code do at each?",
        calls=harness.kv.calls,
    )


def test_nothing_is_remembered_but_the_policy(phase3: ModuleType) -> None:
    preemption = phase3.RecomputePreemption("fcfs")

    def use(name: str) -> Request:
        needing, victim = runner(f"{name} needs"), runner(name)
        harness = RoomHarness([needing, victim], num_blocks=4)
        harness.make_room(preemption, needing, 1)
        harness.check(REMEMBERS, "what does your object remember from one call to the next?", make_room=True)
        return victim

    check_keeps_nothing(
        phase3,
        use,
        preemption,
        what="requests were preempted",
        rule=REMEMBERS,
        hint="which of your attributes, dicts, lists and sets still leads to a request that was preempted?",
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_make_room_agrees_with_a_slow_model(phase3: ModuleType, answers: Answers, policy: Policy, seed: int) -> None:
    rng = random.Random(seed)
    sizes = (*[1] * NUM_STATES, 6)
    fail_with_smallest([room_differs(phase3, answers, policy, rng, many) for many in sizes])
