"""Graded tests of task 1.2."""

import random
from types import ModuleType

import pytest

from course.labtest.phase1.cases import NUM_STATES, SEEDS, _steps_differ, check_step, decoding
from course.labtest.phase1.situations import (
    Situation,
    random_situation,
)
from course.labtest.support import fail_with_smallest, make_request


def test_running_served_in_order_until_the_budget_ends(phase1: ModuleType) -> None:
    running = [make_request(name, 9, num_computed_tokens=2) for name in "CAB"]
    check_step(
        phase1,
        Situation(running, [], budget=10),
        rule="Running requests are served in the order of RUNNING, and the last one gets what is left of the budget.",
        hint="how much of the budget is left after C, and who comes next?",
        plan="C:7  A:3",
        running="[C 2/9, A 2/9, B 2/9]",
        waiting="[]",
        budget_left=0,
        calls=["kv.allocate_slots(C, 7) -> [...]", "kv.allocate_slots(A, 3) -> [...]"],
    )


def test_decodes_and_prefills_are_one_rule(phase1: ModuleType) -> None:
    resumed = make_request("R", 6, num_computed_tokens=4, num_output_tokens=3)
    check_step(
        phase1,
        Situation([decoding("D"), make_request("P", 20, num_computed_tokens=5), resumed], []),
        rule="A request wants num_tokens - num_computed_tokens tokens; prompt and output tokens count alike.",
        hint="which two counters tell you how far behind a request is?",
        plan="D:1  P:15  R:5",
        running="[D 7/8, P 5/20, R 4/9]",
        waiting="[]",
        budget_left=979,
    )


def test_nobody_there_is_an_empty_plan(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([], [], budget=10),
        rule="With nobody there the plan is empty and the budget untouched.",
        hint="what does your code do before it looks at the first request?",
        plan="nobody",
        running="[]",
        waiting="[]",
        budget_left=10,
    )


def test_zero_tokens_means_skipped_not_stopped(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([decoding("A"), decoding("B")], [], not_now=["A"]),
        rule="A running request that the chunk policy gives 0 tokens is skipped: no memory is asked for it, "
        "it is not in the plan, and the next one is served.",
        hint="does B have to wait because A got nothing?",
        plan="B:1",
        running="[A 7/8, B 7/8]",
        waiting="[]",
        calls=["kv.allocate_slots(B, 1) -> [...]"],
    )


def test_an_empty_list_is_not_a_refusal(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([decoding("A", 7), decoding("B", 8)], [], num_blocks=4, block_size=4, evictions={"A": ["B"]}),
        rule="allocate_slots returns the blocks it took: [] means that the last block had room. Only None refuses.",
        hint="`if not blocks` and `if blocks is None` differ for one value. Which?",
        plan="A:1  B:1",
        running="[A 6/7, B 7/8]",
        waiting="[]",
        calls=["kv.allocate_slots(A, 1) -> []", "kv.allocate_slots(B, 1) -> []"],
    )


def test_refused_without_eviction_is_skipped(phase1: ModuleType) -> None:
    running = [decoding("A", 4), make_request("B", 12, num_computed_tokens=4), decoding("C", 5), decoding("D", 6)]
    check_step(
        phase1,
        Situation(running, [], budget=10, num_blocks=6, block_size=4),
        rule="A request that gets no memory, and for which nobody is evicted, sits this step out: it stays RUNNING, "
        "it costs no budget, and the others go on.",
        hint="make_room said False and B is RUNNING still. What of B may be in the plan or missing in the budget?",
        plan="A:1  C:1  D:1",
        running="[A 3/4, B 4/12, C 4/5, D 5/6]",
        waiting="[]",
        budget_left=7,
        calls=[
            "kv.allocate_slots(A, 1) -> []",
            "kv.allocate_slots(B, 8) -> None",
            "preemption.make_room(B, 8) -> False (evicted: nobody)",
            "kv.allocate_slots(C, 1) -> [...]",
            "kv.allocate_slots(D, 1) -> []",
        ],
    )


def test_make_room_holds_the_slots_already(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([decoding("A", 5), decoding("B", 5)], [], num_blocks=2, block_size=4, evictions={"A": ["B"]}),
        rule="make_room returned True: the slots are held. The request enters the plan, and memory is not asked again.",
        hint="what does the docstring of `Preemption.make_room` promise when it returns True?",
        plan="A:1",
        running="[A 4/5]",
        waiting="[B 0/5]",
        budget_left=999,
        preempted=[("B", "A", 0)],
        calls=["kv.allocate_slots(A, 1) -> None", "preemption.make_room(A, 1) -> True (evicted: B)"],
    )


def test_a_victim_further_back_is_not_served(phase1: ModuleType) -> None:
    running = [decoding("A", 5), decoding("B", 5), decoding("C", 6), decoding("D", 7)]
    check_step(
        phase1,
        Situation(running, [], num_blocks=6, block_size=4, evictions={"A": ["C", "B"]}),
        rule="A request that gave way earlier in this step is not RUNNING any more: skip it, and serve the rest.",
        hint="your loop goes over a copy of RUNNING. Who in that copy has lost its blocks meanwhile?",
        plan="A:1  D:1",
        running="[A 4/5, D 6/7]",
        waiting="[B 0/5, C 0/6]",
        preempted=[("C", "A", 0), ("B", "A", 0)],
    )


def test_a_planned_victim_gives_its_tokens_back(phase1: ModuleType) -> None:
    running = [make_request(name, 12, num_computed_tokens=4) for name in "ABC"]
    check_step(
        phase1,
        Situation(running, [], budget=10, threshold=6, num_blocks=5, block_size=4, evictions={"B": ["A"]}),
        rule="make_room took A out of the plan and put its 6 tokens back into `step.token_budget`: the next ones "
        "may use them. B keeps the number it was refused for.",
        hint="do you count the budget in `step.token_budget`, or in a variable that make_room cannot see?",
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
        rule="A request that was its own victim ends the RUNNING phase: those behind it are not served.",
        hint="make_room said False. How can you tell 'nobody may be evicted' from 'it was its own victim'?",
        plan="A:1",
        running="[A 7/8, C 7/8]",
        waiting="[B 0/5]",
        budget_left=999,
        preempted=[("B", "B", 0)],
        calls=[
            "kv.allocate_slots(A, 1) -> []",
            "kv.allocate_slots(B, 1) -> None",
            "preemption.make_room(B, 1) -> False (evicted: B)",
        ],
    )


def test_self_preemption_after_other_victims(phase1: ModuleType) -> None:
    running = [decoding("A", 8), decoding("B", 5), decoding("C", 8), decoding("D", 8)]
    check_step(
        phase1,
        Situation(running, [], num_blocks=7, block_size=4, evictions={"B": ["D", "A", "B"]}),
        rule="A request may take others down before it goes itself: victims leave the plan and nobody else is served.",
        hint="A was planned and then evicted. Does your plan hold it still, and did C get in after B's end?",
        plan="nobody",
        running="[C 7/8]",
        waiting="[B 0/5, A 0/8, D 0/8]",
        budget_left=1000,
        preempted=[("D", "B", 0), ("A", "B", 1), ("B", "B", 0)],
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_running_phase_agrees_with_a_slow_model(phase1: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    fail_with_smallest(
        [_steps_differ(phase1, random_situation(rng, anybody_waits=False), num_steps=1) for _ in range(NUM_STATES)]
    )
