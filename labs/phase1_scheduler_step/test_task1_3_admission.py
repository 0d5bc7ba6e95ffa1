"""Graded tests of task 1.3: which request is admitted, and with how many tokens."""

from types import ModuleType

import pytest

from course.labtest.expect import expect_equal
from course.labtest.phase1.cases import check_next_step, check_step, decoding
from course.labtest.phase1.situations import Scene, Situation
from course.labtest.support import make_request
from mini_vllm.core.request import RequestStatus


def test_budget_caps_total_tokens(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([], [make_request(name, 8) for name in "ABC"], budget=10),
        rule="The tokens of a step never exceed the budget; the last one admitted gets what is left.",
        hint="the budget is 10 and A has 8 tokens to compute. How many are left for B, and how many for C?",
        plan="A:8  B:2",
        running="[A 0/8, B 0/8]",
        waiting="[C 0/8]",
        budget_left=0,
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
        hint="how many tokens does `chunks.num_new_tokens` give A, B and C, and how much of the budget is left?",
        plan="A:16  B:16  C:5",
        running="[A 16/50, B 0/40, C 0/5]",
        budget_left=3,
        use_your_clamp=True,
    )


def test_running_scheduled_before_waiting_admitted(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([decoding("Z"), decoding("Y")], [make_request("A", 8), make_request("B", 8)], budget=7),
        rule="All running requests are served before a waiting one is admitted.",
        hint="Z and Y need 1 token each. Which requests come first in the plan, and how many tokens are left for A?",
        plan="Z:1  Y:1  A:5",
        running="[Z 7/8, Y 7/8, A 0/8]",
        waiting="[B 0/8]",
        budget_left=0,
        use_your_clamp=True,
    )


def test_a_hit_counts_as_computed(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([], [make_request("A", 11), make_request("B", 9)], budget=20, block_size=4, hits={"A": [32, 31]}),
        rule="Hit blocks are computed already: they cost no budget, they are handed to allocate_slots, and the "
        "request starts after them.",
        hint="2 hit blocks of 4 tokens: how many of A's 11 are left, is allocate_slots given them, and which is next?",
        plan="A:3  B:9",
        running="[A 8/11, B 0/9]",
        budget_left=8,
        calls=["kv.allocate_slots(A, 3, hit_blocks=[32, 31]) -> [...]", "kv.allocate_slots(B, 9) -> [...]"],
    )


def test_a_hit_of_thousands_of_blocks_counts_whole(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([], [make_request("A", 20_003)], budget=20, block_size=4, hits={"A": [*range(9000, 4000, -1)]}),
        rule="All hit blocks are computed already, however many there are.",
        hint="5,000 hit blocks of 4 tokens: how many of A's 20,003 tokens are left?",
        plan="A:3",
        running="[A 20000/20003]",
        budget_left=17,
    )


def test_admits_is_given_the_hits_the_running_requests_and_the_memory(phase1: ModuleType) -> None:
    waiting = [make_request("A", 30), make_request("B", 3)]
    scene = Scene(Situation([decoding("R")], waiting, block_size=4, hits={"A": [32, 31]}))
    scene.take_step(phase1)
    expect_equal(
        {f"for {name}": scene.chunks.asked_with.get(name) for name in ("A", "B")},
        {
            "for A": {"hit_blocks": [32, 31], "running": ["R"], "kv": scene.kv},
            "for B": {"hit_blocks": [], "running": ["R", "A"], "kv": scene.kv},
        },
        rule="`admits` is given the request's hit blocks, all requests that run by then, and the memory: the guard of "
        "phase 5 counts with all three.",
        situation=scene.before,
        hint="`admits` has four arguments. When is it asked for A and B, which do you pass on, and what runs then?",
        calls=scene.log,
    )


def test_a_resumed_request_computes_its_outputs_again(phase1: ModuleType) -> None:
    resumed = make_request("A", 5, num_output_tokens=3)
    resumed.status = RequestStatus.PREEMPTED
    resumed.num_preemptions = 1
    check_step(
        phase1,
        Situation([], [resumed, make_request("B", 2)], block_size=2, hits={"A": [31]}),
        rule="A preempted request is admitted like a new one: its hit counts, the rest of prompt and outputs is "
        "computed, and it is RUNNING again.",
        hint="A has 8 tokens and a hit of 2: how many are left? Does it matter that it is PREEMPTED? Which is next?",
        plan="A:6  B:2",
        running="[A 2/8, B 0/2]",
    )


def test_an_empty_list_admits(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([], [make_request("A", 3), make_request("B", 2)], num_blocks=5, block_size=4, reserved={"A": 1}),
        rule="For a waiting request, too, [] from allocate_slots is a success: it needed no new block.",
        hint="what does allocate_slots answer for A, what does this answer mean, and which request is next?",
        plan="A:3  B:2",
        running="[A 0/3, B 0/2]",
        calls=["kv.allocate_slots(A, 3) -> []", "kv.allocate_slots(B, 2) -> [...]"],
    )


def test_admission_goes_by_the_queue_not_by_priority_or_arrival(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([], [make_request(name, 2) for name in "CADB"]),
        rule="Waiting requests are admitted in the order of the queue. Whether that is by arrival or by priority was "
        "decided when they were put in.",
        hint="which requests are admitted, in which order, and which method of the queue returns the next one?",
        plan="C:2  A:2  D:2  B:2",
        running="[C 0/2, A 0/2, D 0/2, B 0/2]",
    )


def test_hits_are_looked_up_anew_in_every_step(phase1: ModuleType) -> None:
    scene = check_step(
        phase1,
        Situation(
            [],
            [make_request("A", 11)],
            num_blocks=3,
            block_size=4,
            hits={"A": [31]},
            later_hits=[{"A": [31, 32]}],
            not_admitted=["A"],
        ),
        rule="A request that is not admitted stays as it was.",
        hint="`admits` refuses A here. At which point may you take a request out of WAITING?",
        plan="empty",
        running="[]",
        waiting="[A 0/11]",
    )
    scene.admit_from_now_on()
    check_next_step(
        phase1,
        scene,
        rule="Blocks enter and leave the prefix cache between two steps: hits are looked up when they are needed, and "
        "never remembered.",
        hint="A had 1 hit block in the step before, has 2 now, and is admitted. How many of its tokens are left?",
        plan="A:3",
        running="[A 8/11]",
        calls=["kv.allocate_slots(A, 3, hit_blocks=[31, 32]) -> [...]"],
    )


@pytest.mark.parametrize("before", ["R", "A"])
def test_hits_are_looked_up_when_the_request_is_next(phase1: ModuleType, before: str) -> None:
    situation = Situation(
        [decoding("R")],
        [make_request("A", 4), make_request("B", 15)],
        block_size=4,
        hits={"B": [9, 5, 7]},
        hits_after={before: {"B": [9]}},
    )
    check_step(
        phase1,
        situation,
        rule="Blocks leave the prefix cache within a step, too: a free hit block may be handed out to the request "
        "before. The hits of a request are looked up when it is first in line, and not earlier.",
        hint=f"B had 3 hit blocks until {before} got its slots, then 1. When do you look, and how much of B is left?",
        plan="R:1  A:4  B:11",
        running="[R 7/8, A 0/4, B 4/15]",
        calls=[
            "kv.allocate_slots(R, 1) -> []",
            "kv.allocate_slots(A, 4) -> [...]",
            "kv.allocate_slots(B, 11, hit_blocks=[9]) -> [...]",
        ],
    )


def test_chunks_is_asked_with_the_budget_that_is_left(phase1: ModuleType) -> None:
    check_step(
        phase1,
        Situation([decoding("R")], [make_request("A", 6), make_request("B", 8)], budget=10, whole_or_not=["B"]),
        rule="`chunks` is asked with the budget that is left, not with the budget of the whole step: it may grant all "
        "or nothing.",
        hint="R has 1 token of the budget and A has 6. Which budget is `chunks` asked with for B, and what does B get?",
        plan="R:1  A:6",
        running="[R 7/8, A 0/6]",
        waiting="[B 0/8]",
        budget_left=3,
    )
