"""Graded tests of task 1.3."""

import random
from types import ModuleType

import pytest

from course.labtest.phase1.cases import NUM_STATES, SEEDS, _steps_differ, check_step, decoding
from course.labtest.phase1.situations import (
    Scene,
    Situation,
    random_situation,
)
from course.labtest.support import compare, fail_with_smallest, make_request
from mini_vllm.core.request import RequestStatus


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


@pytest.mark.parametrize("seed", SEEDS)
def test_steps_agree_with_a_slow_model(phase1: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    fail_with_smallest([_steps_differ(phase1, random_situation(rng), num_steps=3) for _ in range(NUM_STATES)])
