"""Graded tests of task 1.2."""

import random
from types import ModuleType

import pytest

from course.labtest.expect import fail_with_smallest
from course.labtest.phase1.cases import NUM_STATES, SEEDS, check_step, decoding, steps_differ
from course.labtest.phase1.random_cases import random_situations
from course.labtest.phase1.situations import Situation
from course.labtest.recorded import Answers
from course.labtest.support import make_request


def test_running_served_in_order_until_the_budget_ends(phase1: ModuleType) -> None:
    running = [make_request(name, 9, num_computed_tokens=2) for name in "CAB"]
    check_step(
        phase1,
        Situation(running, [], budget=10),
        rule="Running requests are served in the order of RUNNING, whatever their priority and arrival time, and the "
        "last one gets what is left of the budget.",
        hint="how many tokens has C left to compute, how much of the budget is left then, and which request is next?",
        plan="C:7  A:3",
        running="[C 2/9, A 2/9, B 2/9]",
        budget_left=0,
        calls=["kv.allocate_slots(C, 7) -> [...]", "kv.allocate_slots(A, 3) -> [...]"],
    )


def test_decodes_and_prefills_are_one_rule(phase1: ModuleType) -> None:
    resumed = make_request("R", 6, num_computed_tokens=4, num_output_tokens=3)
    check_step(
        phase1,
        Situation([decoding("D"), make_request("P", 20, num_computed_tokens=5), resumed], []),
        rule="A request has num_tokens - num_computed_tokens tokens to compute; prompt and output tokens count alike.",
        hint="which requests are served, in which order, and by which two counters do you know how far behind each is?",
        plan="D:1  P:15  R:5",
        running="[D 7/8, P 5/20, R 4/9]",
        budget_left=979,
    )


def test_without_requests_the_plan_is_empty(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([], [], budget=10),
        rule="Without requests the plan is empty and the budget untouched.",
        hint="what does your code do before it looks at the first request?",
        plan="empty",
        running="[]",
        budget_left=10,
    )


def test_zero_tokens_means_skipped_not_stopped(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([decoding("A"), decoding("B")], [], not_now=["A"]),
        rule="A running request that the chunk policy gives 0 tokens is skipped: no memory is asked for it, "
        "it is not in the plan, and the next one is served.",
        hint="A gets 0 tokens in this step. What does that mean for A, and what for the requests behind it?",
        plan="B:1",
        running="[A 7/8, B 7/8]",
        calls=["kv.allocate_slots(B, 1) -> [...]"],
    )


def test_an_empty_list_is_not_a_refusal(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([decoding("A", 7), decoding("B", 8)], [], num_blocks=4, block_size=4, evictions={"A": ["B"]}),
        rule="allocate_slots returns the blocks it took: [] means that the last block had room. Only None refuses.",
        hint="what does allocate_slots answer for A, what for B, and what does each answer mean?",
        plan="A:1  B:1",
        running="[A 6/7, B 7/8]",
        calls=["kv.allocate_slots(A, 1) -> []", "kv.allocate_slots(B, 1) -> []"],
    )


def test_a_refused_request_is_skipped_if_no_request_is_preempted(phase1: ModuleType) -> None:
    running = [decoding("A", 4), make_request("B", 12, num_computed_tokens=4), decoding("C", 5), decoding("D", 6)]
    check_step(
        phase1,
        Situation(running, [], budget=10, num_blocks=6, block_size=4),
        rule="A request that gets no memory, and for which no request is preempted, is skipped in this step: it stays "
        "RUNNING, it costs no budget, and the others are served.",
        hint="B gets no memory and stays RUNNING. What does that mean for B, and what for the requests behind it?",
        plan="A:1  C:1  D:1",
        running="[A 3/4, B 4/12, C 4/5, D 5/6]",
        budget_left=7,
        calls=[
            "kv.allocate_slots(A, 1) -> []",
            "kv.allocate_slots(B, 8) -> None",
            "preemption.make_room(B, 8) -> False (preempted: none)",
            "kv.allocate_slots(C, 1) -> [...]",
            "kv.allocate_slots(D, 1) -> []",
        ],
    )


def test_make_room_has_allocated_the_slots(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([decoding("A", 5), decoding("B", 5)], [], num_blocks=2, block_size=4, evictions={"A": ["B"]}),
        rule="When make_room returns True, the request holds its slots: it enters the plan, and memory is not asked "
        "again.",
        hint="what does the docstring of `make_room` promise for A when it returns True, and what is B by then?",
        plan="A:1",
        running="[A 4/5]",
        waiting="[B 0/5]",
        budget_left=999,
        preempted=[("B", "A", 0)],
        calls=["kv.allocate_slots(A, 1) -> None", "preemption.make_room(A, 1) -> True (preempted: B)"],
    )


def test_a_victim_further_back_is_not_served(phase1: ModuleType) -> None:
    running = [decoding("A", 5), decoding("B", 5), decoding("C", 6), decoding("D", 7)]
    check_step(
        phase1,
        Situation(running, [], num_blocks=6, block_size=4, evictions={"A": ["C", "B"]}),
        rule="A request that was preempted earlier in this step is not RUNNING any more: skip it, and serve the rest.",
        hint="C and B lose their blocks while A is served. Which does your loop reach next, and how does it tell?",
        plan="A:1  D:1",
        running="[A 4/5, D 6/7]",
        waiting="[B 0/5, C 0/6]",
        preempted=[("C", "A", 0), ("B", "A", 0)],
    )


def test_a_planned_victim_returns_its_tokens_to_the_budget(phase1: ModuleType) -> None:
    running = [make_request(name, 12, num_computed_tokens=4) for name in "ABC"]
    check_step(
        phase1,
        Situation(running, [], budget=10, threshold=6, num_blocks=5, block_size=4, evictions={"B": ["A"]}),
        rule="make_room takes A out of the plan and returns its 6 tokens to `scheduler_output.token_budget`: the next "
        "requests may use them. B keeps the number it was refused for.",
        hint="make_room gives A's 6 tokens back. With which number does B enter the plan, and how many are left for C?",
        plan="B:4  C:6",
        running="[B 4/12, C 4/12]",
        waiting="[A 0/12]",
        budget_left=0,
        preempted=[("A", "B", 6)],
    )


def test_self_preemption_ends_the_phase(phase1: ModuleType) -> None:
    running = [decoding("A", 8), decoding("B", 5), decoding("C", 8)]
    check_step(
        phase1,
        Situation(running, [], num_blocks=5, block_size=4, evictions={"B": ["B"]}),
        rule="A request that was its own victim ends the RUNNING phase: those after it are not served.",
        hint="make_room returns False for B. How can you tell 'no request was preempted' from 'B was its own victim'?",
        plan="A:1",
        running="[A 7/8, C 7/8]",
        waiting="[B 0/5]",
        budget_left=999,
        preempted=[("B", "B", 0)],
        calls=[
            "kv.allocate_slots(A, 1) -> []",
            "kv.allocate_slots(B, 1) -> None",
            "preemption.make_room(B, 1) -> False (preempted: B)",
        ],
    )


def test_self_preemption_after_other_victims(phase1: ModuleType) -> None:
    running = [decoding("A", 8), decoding("B", 5), decoding("C", 8), decoding("D", 8)]
    check_step(
        phase1,
        Situation(running, [], num_blocks=7, block_size=4, evictions={"B": ["D", "A", "B"]}),
        rule="A request may preempt others before it is its own victim: victims leave the plan, and no other request "
        "is served.",
        hint="A is planned and then preempted for B, which is its own last victim. May A or C be in the plan?",
        plan="empty",
        running="[C 7/8]",
        waiting="[B 0/5, A 0/8, D 0/8]",
        budget_left=1000,
        preempted=[("D", "B", 0), ("A", "B", 1), ("B", "B", 0)],
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_running_phase_agrees_with_a_slow_model(phase1: ModuleType, answers: Answers, seed: int) -> None:
    rng = random.Random(seed)
    situations = random_situations(rng, NUM_STATES, with_waiting=False)
    fail_with_smallest([steps_differ(phase1, answers, situation, num_steps=1) for situation in situations])
