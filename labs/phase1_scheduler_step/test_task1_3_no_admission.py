"""Graded tests of task 1.3: when no request is admitted."""

import random
from types import ModuleType

import pytest

from course.labtest.expect import fail_with_smallest
from course.labtest.phase1.cases import NUM_STATES, SEEDS, check_step, decoding, steps_differ
from course.labtest.phase1.random_cases import random_situations
from course.labtest.phase1.situations import Situation
from course.labtest.recorded import Answers
from course.labtest.support import make_request


def test_max_num_seqs_caps_running(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([decoding("A")], [make_request(name, 3) for name in "BCD"], max_num_seqs=3),
        rule="At most max_num_seqs requests run at once, those that ran before this step included.",
        hint="which requests count for max_num_seqs: all of RUNNING, or those of this step? How many seats are left?",
        plan="A:1  B:3  C:3",
        running="[A 7/8, B 0/3, C 0/3]",
        waiting="[D 0/3]",
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
        rule="A waiting request that does not fit holds back the ones after it.",
        hint="what happens to B and to C when B, first in line, does not fit?",
        plan="A:6",
        running="[A 0/6]",
        waiting="[B 0/8, C 0/2]",
        budget_left=94,
        calls=["kv.allocate_slots(A, 6) -> [...]", "kv.allocate_slots(B, 8) -> None"],
        use_your_clamp=True,
    )


def test_waiting_requests_preempt_no_request(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([decoding("A")], [make_request("B", 8)], num_blocks=10, evictions={"B": ["A"]}),
        rule="Only for a running request are others preempted. A waiting one that does not fit waits.",
        hint="B does not fit. What does that mean for B, and for which requests may make_room be called?",
        plan="A:1",
        running="[A 7/8]",
        waiting="[B 0/8]",
    )


def test_a_refused_waiting_request_is_left_as_it_was(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([], [make_request("A", 30), make_request("B", 2)], num_blocks=5, block_size=4, hits={"A": [31, 32]}),
        rule="A waiting request that gets no memory stays first in WAITING, with nothing changed.",
        hint="A gets no memory. What of A may have changed by then, and may B go ahead of it?",
        plan="empty",
        running="[]",
        waiting="[A 0/30, B 0/2]",
        budget_left=1000,
        calls=["kv.allocate_slots(A, 22, hit_blocks=[31, 32]) -> None"],
    )


@pytest.mark.parametrize("was_preempted", [False, True], ids=["new", "resumed"])
@pytest.mark.parametrize("why", ["not_now", "not_admitted"])
def test_a_waiting_request_that_is_not_admitted_stops_admission(
    phase1: ModuleType, why: str, was_preempted: bool
) -> None:
    situation = Situation([decoding("R")], [make_request("A", 6), make_request("B", 3), make_request("C", 2)])
    if was_preempted:
        situation.waiting[1].preempt()
    setattr(situation, why, ["B"])
    check_step(
        phase1,
        situation,
        rule="0 tokens, or no admission, for the first in line ends the WAITING phase. Memory is not asked for it.",
        hint="what does that mean for B, and may C be admitted while B, in front of it, is not?",
        plan="R:1  A:6",
        running="[R 7/8, A 0/6]",
        waiting="[B 0/3, C 0/2]",
        calls=["kv.allocate_slots(R, 1) -> [...]", "kv.allocate_slots(A, 6) -> [...]"],
    )


def test_a_skipped_running_request_does_not_stop_admission(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([decoding("A")], [make_request("B", 2), make_request("C", 2)], max_num_seqs=2, not_now=["A"]),
        rule="0 tokens for a running request is no refusal of memory: waiting requests are admitted all the same. The "
        "skipped one still takes one of the max_num_seqs seats.",
        hint="which event stops admission, and which requests count for max_num_seqs: the plan, or RUNNING?",
        plan="B:2",
        running="[A 7/8, B 0/2]",
        waiting="[C 0/2]",
    )


@pytest.mark.parametrize(
    ("victims", "plan", "running", "waiting"),
    [
        ("", "B:1", "[A 4/5, B 6/7]", "[W 0/1]"),
        ("B", "A:1", "[A 4/5]", "[B 0/7, W 0/1]"),
        ("A", "empty", "[B 6/7]", "[A 0/5, W 0/1]"),
    ],
    ids=["none is preempted", "another is preempted", "it is its own victim"],
)
def test_no_request_is_admitted_after_a_refusal(
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
        rule="Once a running request was refused memory, no request is admitted in this step, however the refusal "
        "ended.",
        hint="A is refused memory. Which are served then, and which need the free blocks next: those that run, or W?",
        plan=plan,
        running=running,
        waiting=waiting,
        preempted=[(name, "A", 0) for name in victims],
    )


def test_a_refusal_stops_admission_even_if_the_last_request_is_served(phase1: ModuleType) -> None:
    running = [make_request("A", 30, num_computed_tokens=4), decoding("B", 7)]
    check_step(
        phase1,
        Situation(running, [make_request("W", 1)], num_blocks=6, block_size=4),
        rule="One refusal anywhere in RUNNING is enough: no request is admitted in this step.",
        hint="A is refused, and B after it has room. Is B served, and which of the two decides about admission?",
        plan="B:1",
        running="[A 4/30, B 6/7]",
        waiting="[W 0/1]",
        budget_left=999,
    )


def test_more_running_than_max_num_seqs_admits_no_request(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([decoding(name) for name in "ABC"], [make_request("W", 2)], max_num_seqs=2),
        rule="A request is admitted only while fewer than max_num_seqs run.",
        hint="3 run and 2 may. Are the 3 served, and does your comparison for W hold if the number is passed already?",
        plan="A:1  B:1  C:1",
        running="[A 7/8, B 7/8, C 7/8]",
        waiting="[W 0/2]",
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_steps_agree_with_a_slow_model(phase1: ModuleType, answers: Answers, seed: int) -> None:
    rng = random.Random(seed)
    situations = random_situations(rng, NUM_STATES)
    fail_with_smallest([steps_differ(phase1, answers, situation, num_steps=3) for situation in situations])
