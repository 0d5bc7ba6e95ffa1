"""Graded tests of phase 1.

`doubles.py` stands in for the memory, the eviction and the chunk policy, `situations.py` sets them up, and
`model.py` holds the slow scheduler that the random tests compare with.
"""

import random
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest

from course.labtest.phase1.reference_model import PlainScheduler, plain_update
from course.labtest.phase1.situations import (
    EOS,
    Scene,
    Situation,
    Update,
    caught_up,
    describe,
    describe_plan,
    random_situation,
    random_update,
)
from course.labtest.phase1.symptoms import symptom_of_step
from course.labtest.support import compare, difference, fail_with_smallest, make_request
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import SchedulerOutput

SEEDS = (1, 2, 3, 4, 5)
NUM_STATES = 60


def decoding(name: str, num_tokens: int = 8) -> Request:
    """Return a running request that is one token behind."""
    return make_request(name, num_tokens, num_computed_tokens=num_tokens - 1)


def check_step(
    phase1: ModuleType,
    situation: Situation,
    *,
    rule: str,
    hint: str,
    plan: str,
    running: str,
    waiting: str,
    budget_left: int | None = None,
    preempted: Sequence[tuple[str, str, int]] = (),
    calls: Sequence[str] | None = None,
    use_your_clamp: bool = False,
) -> None:
    """Take one step and compare all that it decided with what the test says."""
    statuses = {r.request_id: r.status.name for r in situation.waiting} | {name: "PREEMPTED" for name, *_ in preempted}
    statuses |= {entry.split()[0]: "RUNNING" for entry in running.strip("[]").split(", ") if entry}
    running_before = [r.request_id for r in situation.running]
    scene = Scene(situation)
    if use_your_clamp:
        scene.chunks.clamp = phase1.clamp
    yours = scene.outcome(scene.take_step(phase1))
    expected: dict[str, object] = {
        "plan": plan,
        "RUNNING": running,
        "WAITING": waiting,
        "statuses": {name: statuses[name] for name in sorted(statuses)},
        "preempted": list(preempted),
    }
    if budget_left is not None:
        expected["budget left"] = budget_left
    if calls is not None:
        expected["calls"] = list(calls)
    better_rule, better_hint = symptom_of_step(scene.log, running_before, yours)
    compare(
        better_rule or rule,
        before=scene.before,
        expected=expected,
        yours=yours,
        hint=better_hint or hint,
        calls=scene.log,
    )


# Task 1.1: clamp


@pytest.mark.task1_1
@pytest.mark.parametrize(
    ("num_new", "budget", "threshold", "expected"),
    [(8, 10, 0, 8), (8, 5, 0, 5), (100, 50, 16, 16), (100, 10, 16, 10), (16, 50, 16, 16), (8, 0, 0, 0), (8, -3, 4, 0)],
)
def test_clamp_chunks_and_budgets(phase1: ModuleType, num_new: int, budget: int, threshold: int, expected: int) -> None:
    compare(
        "clamp gives what is wanted, cut to the threshold (0: none) and to the budget, never less than 0.",
        before=[f"clamp(num_new={num_new}, budget={budget}, threshold={threshold})"],
        expected={"tokens": expected},
        yours={"tokens": phase1.clamp(num_new, budget, threshold)},
        hint="which of the three caps is the smallest here, and is it in force?",
    )


@pytest.mark.task1_1
def test_clamp_is_the_largest_number_that_all_caps_allow(phase1: ModuleType) -> None:
    for num_new in range(-2, 8):
        for budget in range(-2, 8):
            for threshold in range(8):
                allowed = [n for n in range(num_new + 1) if n <= budget and (threshold == 0 or n <= threshold)]
                compare(
                    "clamp returns the largest number that num_new, budget and threshold all allow; 0 if none does.",
                    before=[f"clamp(num_new={num_new}, budget={budget}, threshold={threshold})"],
                    expected={"tokens": max(allowed, default=0)},
                    yours={"tokens": phase1.clamp(num_new, budget, threshold)},
                    hint="a threshold of 0 means no threshold. What does your code do when a cap is 0 or below?",
                )


# Task 1.2: the RUNNING phase


@pytest.mark.task1_2
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


@pytest.mark.task1_2
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


@pytest.mark.task1_2
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


@pytest.mark.task1_2
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


@pytest.mark.task1_2
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


@pytest.mark.task1_2
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


@pytest.mark.task1_2
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


@pytest.mark.task1_2
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


@pytest.mark.task1_2
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


@pytest.mark.task1_2
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


@pytest.mark.task1_2
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


@pytest.mark.task1_2
@pytest.mark.parametrize("seed", SEEDS)
def test_running_phase_agrees_with_a_slow_model(phase1: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    fail_with_smallest(
        [_steps_differ(phase1, random_situation(rng, anybody_waits=False), num_steps=1) for _ in range(NUM_STATES)]
    )


# Task 1.3: the WAITING phase


@pytest.mark.task1_3
def test_budget_caps_total_tokens(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([], [make_request(name, 8) for name in "ABC"], budget=10),
        rule="The tokens of a step never exceed the budget; the last one admitted gets what is left.",
        hint="A takes 8 of 10. How many are there for B, and is C looked at at all?",
        plan="A:8  B:2",
        running="[A 0/8, B 0/8]",
        waiting="[C 0/8]",
        budget_left=0,
        use_your_clamp=True,
    )


@pytest.mark.task1_3
def test_max_num_seqs_caps_running(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([decoding("A")], [make_request(name, 3) for name in "BCD"], max_num_seqs=3),
        rule="At most max_num_seqs requests run at once, those that ran before this step included.",
        hint="what do you compare with max_num_seqs: everybody in RUNNING, or only who came in now?",
        plan="A:1  B:3  C:3",
        running="[A 7/8, B 0/3, C 0/3]",
        waiting="[D 0/3]",
        use_your_clamp=True,
    )


@pytest.mark.task1_3
def test_chunked_prefill_caps_per_request(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation(
            [make_request("A", 50, num_computed_tokens=16)],
            [make_request("B", 40), make_request("C", 5)],
            40,
            threshold=16,
        ),
        rule="No request gets more than the threshold in one step, running or just admitted.",
        hint="who decides how many tokens a request gets: your loop, or `chunks.num_new_tokens`?",
        plan="A:16  B:16  C:5",
        running="[A 16/50, B 0/40, C 0/5]",
        waiting="[]",
        budget_left=3,
        use_your_clamp=True,
    )


@pytest.mark.task1_3
def test_running_scheduled_before_waiting_admitted(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([decoding("Z"), decoding("Y")], [make_request("A", 8), make_request("B", 8)], budget=7),
        rule="Everybody in RUNNING is served before anybody from WAITING comes in.",
        hint="in which order did the requests enter the plan, and what was left for A?",
        plan="Z:1  Y:1  A:5",
        running="[Z 7/8, Y 7/8, A 0/8]",
        waiting="[B 0/8]",
        budget_left=0,
        use_your_clamp=True,
    )


@pytest.mark.task1_3
def test_admission_stops_when_memory_exhausted(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation(
            [],
            [make_request("A", 6), make_request("B", 8), make_request("C", 2)],
            budget=100,
            max_num_seqs=8,
            num_blocks=10,
        ),
        rule="A waiter that does not fit must hold back the ones behind it.",
        hint="what happens to C when B, in front of it, does not fit?",
        plan="A:6",
        running="[A 0/6]",
        waiting="[B 0/8, C 0/2]",
        budget_left=94,
        calls=["kv.allocate_slots(A, 6) -> [...]", "kv.allocate_slots(B, 8) -> None"],
        use_your_clamp=True,
    )


@pytest.mark.task1_3
def test_arrivals_preempt_nobody(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([decoding("A")], [make_request("B", 8)], num_blocks=10, evictions={"B": ["A"]}),
        rule="Only a running request can make others give way. A waiting one that does not fit waits.",
        hint="which of the two phases may call make_room?",
        plan="A:1",
        running="[A 7/8]",
        waiting="[B 0/8]",
    )


@pytest.mark.task1_3
def test_a_hit_counts_as_computed(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([], [make_request("A", 11), make_request("B", 9)], budget=20, block_size=4, hits={"A": [31, 32]}),
        rule="Hit blocks are computed already: they cost no budget, they are handed to allocate_slots, and the "
        "request starts behind them.",
        hint="2 hit blocks of 4 tokens: how many of A's 11 are left, and does allocate_slots hear of the blocks?",
        plan="A:3  B:9",
        running="[A 8/11, B 0/9]",
        waiting="[]",
        budget_left=8,
        calls=["kv.allocate_slots(A, 3, hit_blocks=[31, 32]) -> [...]", "kv.allocate_slots(B, 9) -> [...]"],
    )


@pytest.mark.task1_3
def test_a_refused_waiter_is_left_as_it_was(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([], [make_request("A", 30), make_request("B", 2)], num_blocks=5, block_size=4, hits={"A": [31, 32]}),
        rule="A waiting request that gets no memory stays first in WAITING, with nothing changed.",
        hint="at which point may you take a request out of WAITING and set its counter?",
        plan="nobody",
        running="[]",
        waiting="[A 0/30, B 0/2]",
        budget_left=1000,
        calls=["kv.allocate_slots(A, 22, hit_blocks=[31, 32]) -> None"],
    )


@pytest.mark.task1_3
@pytest.mark.parametrize("why", ["not_now", "not_admitted"])
def test_a_waiter_that_may_not_come_in_stops_admission(phase1: ModuleType, why: str) -> None:
    situation = Situation([decoding("R")], [make_request("A", 6), make_request("B", 3), make_request("C", 2)])
    setattr(situation, why, ["B"])
    check_step(
        phase1,
        situation,
        rule="0 tokens, or no admission, for the first in line ends the WAITING phase. Memory is not asked for it.",
        hint="may C come in while B, in front of it, may not?",
        plan="R:1  A:6",
        running="[R 7/8, A 0/6]",
        waiting="[B 0/3, C 0/2]",
        calls=["kv.allocate_slots(R, 1) -> [...]", "kv.allocate_slots(A, 6) -> [...]"],
    )


@pytest.mark.task1_3
def test_admission_is_asked_about_with_the_hits_the_running_and_the_memory(phase1: ModuleType) -> None:
    waiting = [make_request("A", 30), make_request("B", 3)]
    scene = Scene(Situation([decoding("R")], waiting, block_size=4, hits={"A": [31, 32]}))
    scene.take_step(phase1)
    compare(
        "`admits` is told the request's hit blocks, everybody who runs by then, and the memory: the guard of phase 5 "
        "counts with all three.",
        before=scene.before,
        expected={
            "for A": {"hit_blocks": [31, 32], "running": ["R"], "kv": scene.kv},
            "for B": {"hit_blocks": [], "running": ["R", "A"], "kv": scene.kv},
        },
        yours={f"for {name}": scene.chunks.asked_with.get(name) for name in ("A", "B")},
        hint="`admits` has four arguments; which of them do you pass on, and who runs when B's turn comes?",
        calls=scene.log,
    )


@pytest.mark.task1_3
def test_a_resumed_request_computes_its_outputs_again(phase1: ModuleType) -> None:
    resumed = make_request("A", 5, num_output_tokens=3)
    resumed.status = RequestStatus.PREEMPTED
    resumed.num_preemptions = 1
    check_step(
        phase1,
        Situation([], [resumed, make_request("B", 2)]),
        rule="A preempted request comes back like a new one: prompt and outputs are computed, and it is RUNNING again.",
        hint="is there any difference between a request that is WAITING and one that is PREEMPTED, in this phase?",
        plan="A:8  B:2",
        running="[A 0/8, B 0/2]",
        waiting="[]",
    )


@pytest.mark.task1_3
def test_a_skipped_running_request_does_not_close_the_door(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([decoding("A")], [make_request("B", 2), make_request("C", 2)], max_num_seqs=2, not_now=["A"]),
        rule="0 tokens for a running request is no refusal of memory: waiting requests come in all the same. The "
        "skipped one still takes one of the max_num_seqs places.",
        hint="which event closes the WAITING phase, and who counts for max_num_seqs: the plan, or RUNNING?",
        plan="B:2",
        running="[A 7/8, B 0/2]",
        waiting="[C 0/2]",
    )


@pytest.mark.task1_3
def test_an_empty_list_admits(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([], [make_request("A", 3), make_request("B", 2)], num_blocks=5, block_size=4, reserved={"A": 1}),
        rule="For a waiting request, too, [] from allocate_slots is a success: it needed no new block.",
        hint="`if not blocks` and `if blocks is None` differ for one value. Which?",
        plan="A:3  B:2",
        running="[A 0/3, B 0/2]",
        waiting="[]",
        calls=["kv.allocate_slots(A, 3) -> []", "kv.allocate_slots(B, 2) -> [...]"],
    )


@pytest.mark.task1_3
@pytest.mark.parametrize(
    ("victims", "plan", "running", "waiting"),
    [
        ("", "B:1", "[A 4/5, B 6/7]", "[W 0/1]"),
        ("B", "A:1", "[A 4/5]", "[B 0/7, W 0/1]"),
        ("A", "nobody", "[B 6/7]", "[A 0/5, W 0/1]"),
    ],
    ids=["nobody is evicted", "another gives way", "it gives way itself"],
)
def test_nobody_comes_in_after_a_refusal(
    phase1: ModuleType, victims: str, plan: str, running: str, waiting: str
) -> None:
    situation = Situation(
        [make_request("A", 5, num_computed_tokens=4), decoding("B", 7)],
        [make_request("W", 1)],
        num_blocks=3,
        block_size=4,
        hits={"W": []},
        evictions={"A": list(victims)} if victims else {},
    )
    check_step(
        phase1,
        situation,
        rule="Once a running request was refused memory, nobody is admitted in this step, however the refusal ended.",
        hint="W would fit into what was freed. Who is meant to have that memory first?",
        plan=plan,
        running=running,
        waiting=waiting,
        preempted=[(name, "A", 0) for name in victims],
    )


@pytest.mark.task1_3
def test_a_refusal_in_the_middle_closes_the_door_even_if_the_last_one_is_served(phase1: ModuleType) -> None:
    running = [make_request("A", 30, num_computed_tokens=4), decoding("B", 7)]
    check_step(
        phase1,
        Situation(running, [make_request("W", 1)], num_blocks=6, block_size=4),
        rule="One refusal anywhere in RUNNING is enough: nobody is admitted in this step.",
        hint="do you remember the refusal of A when B, behind it, got its memory?",
        plan="B:1",
        running="[A 4/30, B 6/7]",
        waiting="[W 0/1]",
        budget_left=999,
    )


@pytest.mark.task1_3
@pytest.mark.parametrize("seed", SEEDS)
def test_steps_agree_with_a_slow_model(phase1: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    fail_with_smallest([_steps_differ(phase1, random_situation(rng), num_steps=3) for _ in range(NUM_STATES)])


def _steps_differ(phase1: ModuleType, situation: Situation, num_steps: int) -> str:
    """Take steps beside the slow model; return the report of the first that differs."""
    model, scene = PlainScheduler(situation), Scene(situation)
    plans: list[tuple[SchedulerOutput, str]] = []
    for number in range(1, num_steps + 1):
        running_before = [r.request_id for r in scene.running]
        queues = f"before  RUNNING {describe(scene.running)}  WAITING {describe(list(scene.waiting))}"
        scene.log.clear()
        step = scene.take_step(phase1)
        model.step()
        yours = scene.outcome(step)
        rule, hint = symptom_of_step(scene.log, running_before, yours)
        report = difference(
            rule or f"Step {number} of a random case does not follow the numbered rules in the starter.",
            before=[queues, *scene.before[1:]],
            expected=model.outcome() | {"plans of earlier steps": [plan for _, plan in plans]},
            yours=yours
            | {"plans of earlier steps": [describe_plan(one.num_scheduled_tokens.items()) for one, _ in plans]},
            hint=hint or "go through the numbered rules with these requests; at which of your calls do you leave them?",
            calls=scene.log,
        )
        if report:
            return report
        plans.append((step, describe_plan(model.plan)))
        model.advance()
        scene.advance(step)
    return ""


# Task 1.4: update_from_output


@pytest.mark.task1_4
def test_sampled_tokens_are_appended(phase1: ModuleType) -> None:
    Update([caught_up("A"), caught_up("B", 3)], {"B": [12], "A": [11]}).check(
        phase1,
        "Every sampled token is appended to its request, and returned as kept.",
        "which list of the request holds prompt and outputs together?",
        returned={"A": [11], "B": [12]},
        running="A B",
    )


@pytest.mark.task1_4
@pytest.mark.parametrize(
    ("request_kwargs", "max_model_len", "token_id", "reason", "stop_reason"),
    [
        ({}, 1000, EOS, "stop", None),
        ({"ignore_eos": True}, 1000, EOS, None, None),
        ({"stop_token_ids": (8, 9)}, 1000, 9, "stop", 9),
        ({"stop_token_ids": (EOS,), "ignore_eos": True}, 1000, EOS, "stop", EOS),
        ({"max_tokens": 3}, 1000, 11, "length", None),
        ({"max_tokens": 4}, 1000, 11, None, None),
        ({}, 7, 11, "length", None),
        ({}, 8, 11, None, None),
        ({"max_tokens": 3}, 7, EOS, "stop", None),
        ({"max_tokens": 3, "stop_token_ids": (8,)}, 1000, 8, "stop", 8),
    ],
    ids=[
        "EOS",
        "EOS ignored",
        "stop token",
        "EOS ignored but a stop token",
        "max_tokens reached",
        "one below max_tokens",
        "max_model_len reached",
        "one below max_model_len",
        "EOS goes before length",
        "stop token goes before length",
    ],
)
def test_every_way_to_end(
    phase1: ModuleType,
    request_kwargs: dict[str, Any],
    max_model_len: int,
    token_id: int,
    reason: str | None,
    stop_reason: int | None,
) -> None:
    request = caught_up("A", 2, num_prompt=4, **request_kwargs)
    Update([request, caught_up("B", num_prompt=1)], {"A": [token_id], "B": [11]}, max_model_len=max_model_len).check(
        phase1,
        "check_stop says whether a request is over. If it is: its status is final, its last token is kept, its "
        "blocks are freed and it leaves RUNNING. If it is not: it goes on.",
        "do you ask check_stop after each token, with the max_model_len that you were given?",
        returned={"A": [token_id], "B": [11]},
        running="A B" if reason is None else "B",
        finished={} if reason is None else {"A": reason},
        freed="" if reason is None else "A",
        stop_reasons={} if stop_reason is None else {"A": stop_reason},
    )


@pytest.mark.task1_4
def test_tokens_behind_a_stop_are_dropped(phase1: ModuleType) -> None:
    running = [caught_up("A"), caught_up("B", max_tokens=2), caught_up("C")]
    Update(running, {"A": [11, EOS, 12, EOS], "B": [11, 12, 13], "C": [11, 12, 13]}).check(
        phase1,
        "A step may sample several tokens of a request. Those behind the one that ends it never happened, and a "
        "request is freed once.",
        "do you append all tokens first and look for a stop afterwards, or look after each one?",
        returned={"A": [11, EOS], "B": [11, 12], "C": [11, 12, 13]},
        running="C",
        finished={"A": "stop", "B": "length"},
        freed="A B",
    )


@pytest.mark.task1_4
def test_requests_end_in_the_order_of_the_step(phase1: ModuleType) -> None:
    running = [caught_up(name) for name in "ABCD"]
    sampled = {"A": [EOS], "B": [EOS], "C": [11], "D": [EOS]}
    Update(running, sampled, planned="DCBA").check(
        phase1,
        "The requests are gone through in the order of the step, so their blocks come back in that order.",
        "over which of the dictionaries does your loop go?",
        returned=sampled,
        running="C",
        finished={"A": "stop", "B": "stop", "D": "stop"},
        freed="D B A",
    )


@pytest.mark.task1_4
def test_neighbors_end_together_and_the_order_stays(phase1: ModuleType) -> None:
    running = [caught_up(name) for name in "DBEAC"]
    sampled = {"B": [EOS], "D": [11], "E": [EOS], "C": [11], "A": [11]}
    Update(running, sampled).check(
        phase1,
        "The finished requests leave RUNNING, in the very list that was passed in; the others keep their order.",
        "do you remove from a list while you go through it? Do you change the caller's list or make a new one?",
        returned=sampled,
        running="D A C",
        finished={"B": "stop", "E": "stop"},
        freed="B E",
    )


@pytest.mark.task1_4
def test_a_gone_request_is_passed_over(phase1: ModuleType) -> None:
    Update([caught_up("B")], {"A": [11], "B": [12]}, planned="AB", gone="A").check(
        phase1,
        "A request that is not in `requests` any more is passed over: its token is nobody's.",
        "what does your code do with an id of the step that `requests` does not know?",
        returned={"B": [12]},
        running="B",
    )


@pytest.mark.task1_4
def test_who_got_no_token_is_not_in_the_answer(phase1: ModuleType) -> None:
    running = [caught_up("A"), caught_up("B"), caught_up("C")]
    Update(running, {"B": [11], "C": []}).check(
        phase1,
        "A request in the middle of its prompt gets no token: it is left alone and is not in the answer.",
        "neither A nor C sampled. What does `sampled_token_ids` say about the one, and what about the other?",
        returned={"B": [11]},
        running="A B C",
    )


@pytest.mark.task1_4
def test_nothing_sampled_changes_nothing(phase1: ModuleType) -> None:
    Update([caught_up("A"), caught_up("B")], {}).check(
        phase1,
        "A step in which nobody samples returns an empty dictionary and changes nothing.",
        "what do you return when no request got a token?",
        returned={},
        running="A B",
    )


@pytest.mark.task1_4
@pytest.mark.parametrize("seed", SEEDS)
def test_updates_agree_with_a_slow_model(phase1: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    reports = []
    for _ in range(NUM_STATES):
        update = random_update(rng)
        expected = plain_update(update)
        update.apply(phase1)
        reports.append(
            difference(
                "A random update does not follow the numbered rules in the starter.",
                before=update.before,
                expected=expected,
                yours=update.outcome(),
                hint="take the requests in the order of the step and their tokens one by one: where do you part?",
            )
        )
    fail_with_smallest(reports)
