"""Graded tests of phase 3.

`doubles.py` stands in for the memory, `benches.py` writes down what your code does with it, and
`model.py` holds the slow eviction that the random tests compare with.
"""

import random
from types import ModuleType
from typing import Any

import pytest

from course.labtest.phase3.doubles import ScriptedKV, SharedBlocksKV
from course.labtest.phase3.harness import QueueBench, RoomBench, expected_state, own_blocks, rank
from course.labtest.phase3.reference_model import PlainRequest, PlainRoom
from course.labtest.support import (
    compare,
    difference,
    explained,
    fail_with_smallest,
    fields_of,
    make_request,
    waiting_queue,
)
from mini_vllm.config import Policy
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.seams.interfaces import RequestQueue

SEEDS = (1, 2, 3, 4, 5)
NUM_STATES = 60
VICTIM_CHANGES = ("status", "num_computed_tokens", "num_preemptions")


def waiter(name: str, priority: int = 0, arrival_time: float = 0.0) -> Request:
    return make_request(name, 4, priority=priority, arrival_time=arrival_time)


def runner(name: str, num_computed: int = 8, priority: int = 0, arrival_time: float = 0.0) -> Request:
    """Return a running request that is one token behind."""
    return make_request(
        name, num_computed + 1, num_computed_tokens=num_computed, priority=priority, arrival_time=arrival_time
    )


# Task 3.1: PriorityRequestQueue


@pytest.mark.task3_1
def test_the_smallest_priority_number_comes_first(phase3: ModuleType) -> None:
    bench = QueueBench(phase3)
    bench.add(waiter("A", 5), waiter("B", -1), waiter("C", 3), waiter("D", 0))
    bench.check("A smaller number is more urgent, below 0 too.", "which request is looked at first?", list("BDCA"))


@pytest.mark.task3_1
def test_ties_go_to_the_earlier_arrival(phase3: ModuleType) -> None:
    bench = QueueBench(phase3)
    bench.add(waiter("A", 1, 2.5), waiter("B", 1, 0.5), waiter("C", 0, 9.0), waiter("D", 1, 1.5))
    bench.check(
        "Of equal priority, the earlier arrival comes first.",
        "is the arrival time the second thing that your queue compares?",
        list("CBDA"),
    )


@pytest.mark.task3_1
def test_full_ties_go_by_the_id_as_a_string(phase3: ModuleType) -> None:
    bench = QueueBench(phase3)
    bench.add(*(waiter(name, 1, 1.0) for name in ("9", "b", "10", "a", "B")))
    bench.check(
        "Of equal priority and arrival the id decides, compared as a string: '10' comes before '9'.",
        "what does your queue compare when priority and arrival time are equal?",
        ["10", "9", "B", "a", "b"],
    )


@pytest.mark.task3_1
def test_prepending_does_not_jump_the_queue(phase3: ModuleType) -> None:
    bench = QueueBench(phase3)
    bench.add(waiter("A", 0, 1.0), waiter("B", 2, 0.0))
    bench.prepend(waiter("V", 1, 0.0))
    bench.prepend(waiter("W", 0, 0.5))
    bench.check(
        "A preempted request finds its place by the same rule as any other: there is no front to go back to.",
        "V was preempted and is less urgent than A. Who is looked at first?",
        list("WAVB"),
    )


@pytest.mark.task3_1
def test_peek_and_iteration_take_nothing_out(phase3: ModuleType) -> None:
    bench = QueueBench(phase3)
    bench.add(*(waiter(name, priority) for name, priority in zip("ABCDEF", (5, 4, 3, 2, 1, 0), strict=True)))
    for _ in range(2):
        compare(
            "Looking changes nothing, and iteration goes in service order.",
            before=bench.story,
            expected=expected_state("FEDCBA") | {"order": list("FEDCBA")},
            yours=bench.state(),
            hint="in which order does a heap keep its list?",
        )
    bench.check("Looking changes nothing.", "do you pop in order to look?", list("FEDCBA"))


@pytest.mark.task3_1
def test_the_very_request_comes_out(phase3: ModuleType) -> None:
    bench = QueueBench(phase3)
    request = waiter("A")
    bench.add(request)
    same = {
        "peek_request": bench.queue.peek_request() is request,
        "iteration": next(iter(bench.queue)) is request,
        "pop_request": bench.pop() is request,
    }
    compare(
        "The queue gives back the request that was put in, not a copy and not a tuple around it.",
        before=bench.story,
        expected=dict.fromkeys(same, True),
        yours=same,
        hint="which part of your entry is the request?",
    )


@pytest.mark.task3_1
def test_an_empty_queue_is_empty(phase3: ModuleType) -> None:
    bench = QueueBench(phase3)
    yours = {**bench.state(), "bool(queue)": bool(bench.queue)}
    compare(
        "A new queue has length 0: that is how `while waiting` ends.",
        before=bench.story,
        expected={**expected_state([]), "bool(queue)": False},
        yours=yours,
        hint="what does len() say?",
    )
    request = waiter("A")
    bench.add(request)
    bench.remove(request)
    bench.check("An emptied queue has length 0.", "what does len() count?", [])


@pytest.mark.task3_1
@pytest.mark.parametrize("index", range(7))
def test_remove_takes_out_anybody(phase3: ModuleType, index: int) -> None:
    bench = QueueBench(phase3)
    requests = [waiter(name, p) for name, p in zip("ABCDEFG", (0, 5, 1, 6, 7, 2, 3), strict=True)]
    bench.add(*requests)
    bench.remove(requests[index])
    bench.check(
        "A request can be removed from anywhere, and the others keep their order.",
        "is what is left in your list still a heap?",
        [name for name in "ACFGBDE" if name != requests[index].request_id],
    )


@pytest.mark.task3_1
def test_a_removed_request_can_come_back(phase3: ModuleType) -> None:
    bench = QueueBench(phase3)
    requests = {name: waiter(name, p) for name, p in zip("ABC", (1, 2, 3), strict=True)}
    bench.add(*requests.values())
    bench.remove(requests["B"])
    requests["B"].priority = 0
    bench.add(requests["B"])
    bench.check("A request that was removed may be added again.", "is anything left of its first stay?", list("BAC"))


@pytest.mark.task3_1
@pytest.mark.parametrize("seed", SEEDS)
def test_queue_agrees_with_a_sorted_list(phase3: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    fail_with_smallest([_queue_differs(phase3, rng) for _ in range(NUM_STATES)])


def _queue_differs(phase3: ModuleType, rng: random.Random) -> str:
    bench = QueueBench(phase3)
    inside: list[Request] = []
    ranks = rng.choice((((0, 1, 2), (0.0, 1.0, 2.0)), ((-10, -9, 9, 10), (0.5, 9.0, 10.0, 1e6))))
    outside = [waiter(str(i), rng.choice(ranks[0]), rng.choice(ranks[1])) for i in range(4, 16)]
    for _ in range(rng.randint(4, 20)):
        if rng.random() < 0.05:
            bench.use_another()
        act = rng.choice(("add", "add", "prepend", "pop", "remove"))
        popped: object = None
        wanted: object = None
        if act in ("add", "prepend") and outside:
            request = outside.pop(rng.randrange(len(outside)))
            inside.append(request)
            inside.sort(key=lambda r: (r.priority, r.arrival_time, r.request_id))
            (bench.add if act == "add" else bench.prepend)(request)
        elif act == "pop" and inside:
            outside.append(inside.pop(0))
            popped, wanted = bench.pop().request_id, outside[-1].request_id
        elif act == "remove" and inside:
            outside.append(inside.pop(rng.randrange(len(inside))))
            bench.remove(outside[-1])
        report = difference(
            "After these uses your queue and a sorted list do not hold the same.",
            before=bench.story,
            expected={"popped": wanted, **expected_state([r.request_id for r in inside])},
            yours={"popped": popped, **bench.state()},
            hint="sort the requests that are in the queue by hand. Which use broke the order?",
        )
        if report:
            return report
    return ""


# Task 3.2: choose_victim


def check_victim(phase3: ModuleType, running: list[Request], policy: Policy, victim: str, rule: str, hint: str) -> None:
    order = [r.request_id for r in running]
    chosen = phase3.choose_victim(running, policy)
    compare(
        rule,
        before=[f"RUNNING {', '.join(map(rank, running))}", f"policy  {policy}"],
        expected={"victim": victim, "RUNNING afterwards": order},
        yours={
            "victim": getattr(chosen, "request_id", chosen),
            "RUNNING afterwards": [r.request_id for r in running],
        },
        hint=hint,
    )


@pytest.mark.task3_2
@pytest.mark.parametrize("order", ["ABC", "CAB", "B"])
def test_fcfs_takes_the_last_one(phase3: ModuleType, order: str) -> None:
    running = {"A": runner("A", 8, 9, 9.0), "B": runner("B", 8, 0, 0.0), "C": runner("C", 8, 5, 3.0)}
    check_victim(
        phase3,
        [running[name] for name in order],
        "fcfs",
        order[-1],
        "Under fcfs the victim is the last of RUNNING, whatever its rank. Choosing takes nobody out.",
        "who came into RUNNING last?",
    )


@pytest.mark.task3_2
@pytest.mark.parametrize(
    ("ranks", "victim", "rule"),
    [
        ([(0, 9.0), (3, 1.0), (1, 5.0)], "B", "Under priority the victim has the largest priority number."),
        ([(-5, 9.0), (-1, 1.0), (-3, 5.0)], "B", "Numbers below 0 are priorities like others."),
        ([(2, 1.0), (2, 7.0), (2, 3.0), (1, 9.0)], "B", "Of equal priority the latest arrival gives way."),
        ([(1, 5.0), (1, 5.0), (0, 9.0)], "A", "Of full ties the first in running order gives way."),
        ([(0, 9.0), (1, 5.0), (1, 2.0), (1, 5.0)], "B", "Of full ties the first in running order gives way."),
        ([(4, 0.0)], "A", "A single running request is the victim."),
    ],
)
def test_priority_takes_the_least_urgent(
    phase3: ModuleType, ranks: list[tuple[int, float]], victim: str, rule: str
) -> None:
    running = [runner(name, 8, *rank_of) for name, rank_of in zip("ABCD", ranks, strict=False)]
    check_victim(
        phase3,
        running,
        "priority",
        victim,
        rule,
        "compare (priority, arrival time). Which of several equal ones is it?",
    )


@pytest.mark.task3_2
@pytest.mark.parametrize("seed", SEEDS)
def test_victim_agrees_with_a_slow_search(phase3: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(NUM_STATES):
        names = rng.sample("ABCDEF", rng.randint(1, 6))
        ranks = rng.choice((((0, 1, 2), (0.0, 1.0, 2.0)), ((-10, -9, 9, 10), (0.5, 9.0, 10.0, 1e6))))
        running = [runner(name, 8, rng.choice(ranks[0]), rng.choice(ranks[1])) for name in names]
        latest = max((r.priority, r.arrival_time) for r in running)
        least_urgent = [r.request_id for r in running if (r.priority, r.arrival_time) == latest]
        victims: dict[Policy, str] = {"fcfs": names[-1], "priority": least_urgent[0]}
        for policy, victim in victims.items():
            check_victim(
                phase3,
                running,
                policy,
                victim,
                "fcfs: the last one. priority: the largest (priority, arrival time), of equals the first in RUNNING.",
                "write (priority, arrival time) under each name. Which is the largest, and where does it come first?",
            )


# Task 3.3: preempt


def check_preempt(
    phase3: ModuleType, request: Request, waiting: RequestQueue, rule: str, hint: str, **expected: object
) -> None:
    kv = SharedBlocksKV(9, 4, {**own_blocks([request], 4), "Z": [9]})
    tokens, fields = list(request.all_token_ids), fields_of(request)
    before = [
        f"preempt {request.request_id}: {request.num_computed_tokens} of {request.num_tokens} tokens computed, "
        f"{request.num_output_tokens} of them outputs, preempted {request.num_preemptions}x so far",
        f"WAITING {', '.join(r.request_id for r in waiting) or 'nobody'}",
    ]
    with explained(before):
        phase3.preempt(request, waiting, kv)
    yours: dict[str, Any] = {
        "status": request.status.name,
        "computed tokens": request.num_computed_tokens,
        "preemptions": request.num_preemptions,
        "WAITING": "".join(r.request_id for r in waiting),
        "kv calls": kv.calls,
        "tokens kept": request.all_token_ids == tokens,
        "also changed": [name for name, value in fields_of(request).items() if value != fields[name]],
    }
    yours["also changed"] = [name for name in yours["also changed"] if name not in VICTIM_CHANGES]
    wanted = {label.replace("_", " "): value for label, value in expected.items()}
    compare(rule, before=before, expected=wanted, yours=yours, hint=hint)


@pytest.mark.task3_3
def test_a_preempted_request_starts_again(phase3: ModuleType) -> None:
    request = make_request("A", 9, num_computed_tokens=11, num_output_tokens=3)
    check_preempt(
        phase3,
        request,
        waiting_queue([]),
        "A preempted request is PREEMPTED, has 0 computed tokens, keeps its tokens, and was preempted once more.",
        "what is lost with the blocks: the tokens, or their K and V?",
        status="PREEMPTED",
        computed_tokens=0,
        preemptions=1,
        WAITING="A",
        tokens_kept=True,
    )


@pytest.mark.task3_3
def test_preemptions_add_up(phase3: ModuleType) -> None:
    request = make_request("A", 9, num_computed_tokens=4)
    request.num_preemptions = 2
    check_preempt(
        phase3,
        request,
        waiting_queue([]),
        "num_preemptions counts every time.",
        "do you set the counter, or add to it?",
        status="PREEMPTED",
        preemptions=3,
    )


@pytest.mark.task3_3
@pytest.mark.parametrize("num_outputs", [0, 3])
def test_nothing_else_about_a_victim_changes(phase3: ModuleType, num_outputs: int) -> None:
    request = make_request(
        "A", 9, num_computed_tokens=9, num_output_tokens=num_outputs, priority=2, arrival_time=3.0, max_tokens=20
    )
    request.num_cached_tokens, request.block_hashes = 4, [b"of its first block"]
    check_preempt(
        phase3,
        request,
        waiting_queue([]),
        "Status, computed tokens and preemptions change; prompt, outputs, rank, hashes and all the rest stay.",
        "five things happen to a victim. Which line of yours is a sixth?",
        also_changed=[],
    )


@pytest.mark.task3_3
def test_blocks_are_freed_before_the_counter_is_reset(phase3: ModuleType) -> None:
    check_preempt(
        phase3,
        make_request("A", 9, num_computed_tokens=7),
        waiting_queue([]),
        "The blocks go back once, and before the counter is reset: kv.free looks at it.",
        "what is num_computed_tokens at the moment when you call kv.free?",
        kv_calls=["kv.free(A, 7)"],
        computed_tokens=0,
    )


@pytest.mark.task3_3
def test_a_victim_goes_to_the_front_of_the_line(phase3: ModuleType) -> None:
    check_preempt(
        phase3,
        make_request("V", 9, num_computed_tokens=7),
        waiting_queue([waiter("A"), waiter("B")]),
        "A preempted request came before all who wait: it goes back in front of them.",
        "which method of the queue puts a request in front?",
        WAITING="VAB",
    )


@pytest.mark.task3_3
def test_a_request_without_blocks_can_be_preempted(phase3: ModuleType) -> None:
    request = make_request("A", 9)
    request.status = RequestStatus.RUNNING
    check_preempt(
        phase3,
        request,
        waiting_queue([waiter("B")]),
        "Nothing computed is no special case.",
        "does any of your lines need a block to be there?",
        status="PREEMPTED",
        computed_tokens=0,
        preemptions=1,
        WAITING="AB",
        kv_calls=["kv.free(A, 0)"],
    )


# Task 3.4: RecomputePreemption.make_room


@pytest.mark.task3_4
def test_fcfs_evicts_the_last_one(phase3: ModuleType) -> None:
    running = [runner(name) for name in "ABC"]
    bench = RoomBench(running, num_blocks=6, waiting=[waiter("W")], plan={})
    answer = bench.make_room(phase3.RecomputePreemption("fcfs"), running[0], 1)
    bench.check(
        "The last of RUNNING gives way and goes to the front of WAITING; the one in need holds its slots then.",
        "1 block is needed and C holds 2. Who moved where, and what does A hold?",
        answer,
        make_room=True,
        RUNNING=["A", "B"],
        WAITING=["C", "W"],
        plan=[],
        budget_left=10,
        preempted=[("C", "A", 0)],
        block_tables={"A": [1, 2, 5], "B": [3, 4]},
        requests=[
            "A RUNNING 8/9, preempted 0x",
            "B RUNNING 8/9, preempted 0x",
            "C PREEMPTED 0/9, preempted 1x",
            "W WAITING 0/4, preempted 0x",
        ],
    )


@pytest.mark.task3_4
def test_several_victims_until_it_fits(phase3: ModuleType) -> None:
    running = [make_request("A", 24, num_computed_tokens=8), *(runner(name, 4) for name in "BCDE")]
    bench = RoomBench(running, num_blocks=6, waiting=[waiter("W")])
    answer = bench.make_room(phase3.RecomputePreemption("fcfs"), running[0], 12)
    bench.check(
        "One victim after the other gives way, and no more than needed. The last victim stands first in WAITING, so "
        "those who wait are in order of arrival again.",
        "3 blocks are needed, and each victim gives 1. How many give way, and in which order do they stand in line?",
        answer,
        make_room=True,
        RUNNING=["A", "B"],
        WAITING=["C", "D", "E", "W"],
        preempted=[("E", "A", 0), ("D", "A", 0), ("C", "A", 0)],
        block_tables={"A": [1, 2, 4, 5, 6], "B": [3]},
    )


@pytest.mark.task3_4
def test_a_victim_whose_blocks_are_shared_frees_too_little(phase3: ModuleType) -> None:
    running = [runner(name) for name in "ABCD"]
    tables = {"A": [1, 2], "B": [1, 3], "C": [1, 4], "D": [1, 4]}
    bench = RoomBench(running, num_blocks=4, tables=tables)
    answer = bench.make_room(phase3.RecomputePreemption("fcfs"), running[0], 1)
    bench.check(
        "A victim may free nothing, because others hold its blocks too. Memory is asked again after each victim.",
        "D's blocks are C's too. How do you find out whether D was enough?",
        answer,
        make_room=True,
        RUNNING=["A", "B"],
        WAITING=["C", "D"],
        preempted=[("D", "A", 0), ("C", "A", 0)],
        block_tables={"A": [1, 2, 4], "B": [1, 3]},
    )


@pytest.mark.task3_4
def test_its_own_victim_holds_nothing(phase3: ModuleType) -> None:
    running = [runner(name) for name in "ABC"]
    bench = RoomBench(running, num_blocks=6, waiting=[waiter("W")], plan={"A": 1, "B": 1}, budget=8)
    answer = bench.make_room(phase3.RecomputePreemption("fcfs"), running[2], 1)
    bench.check(
        "If the victim is the request in need itself, it is over: False, and it holds nothing. Its preemption counts "
        "like any other.",
        "C has given its blocks back. Should it ask for new ones right away?",
        answer,
        make_room=False,
        RUNNING=["A", "B"],
        WAITING=["C", "W"],
        plan=[("A", 1), ("B", 1)],
        budget_left=8,
        preempted=[("C", "C", 0)],
        block_tables={"A": [1, 2], "B": [3, 4]},
        requests=[
            "A RUNNING 8/9, preempted 0x",
            "B RUNNING 8/9, preempted 0x",
            "C PREEMPTED 0/9, preempted 1x",
            "W WAITING 0/4, preempted 0x",
        ],
    )


@pytest.mark.task3_4
def test_others_first_and_then_itself(phase3: ModuleType) -> None:
    running = [make_request("A", 40, num_computed_tokens=8), runner("B", 4), runner("C", 4)]
    bench = RoomBench(running, num_blocks=4)
    answer = bench.make_room(phase3.RecomputePreemption("fcfs"), running[0], 30)
    bench.check(
        "If even the memory of all the others is too little, the request goes last of all.",
        "who is left in RUNNING when C and B are gone?",
        answer,
        make_room=False,
        RUNNING=[],
        WAITING=["A", "B", "C"],
        preempted=[("C", "A", 0), ("B", "A", 0), ("A", "A", 0)],
        block_tables={},
    )


@pytest.mark.task3_4
def test_a_planned_victim_leaves_the_plan(phase3: ModuleType) -> None:
    running = [runner("A", 8, priority=0), runner("B", 8, priority=9), runner("C", 8, priority=1)]
    bench = RoomBench(running, num_blocks=6, plan={"A": 1, "B": 5}, budget=4)
    answer = bench.make_room(phase3.RecomputePreemption("priority"), running[2], 1)
    bench.check(
        "A victim that this step had planned leaves the plan, and its tokens go back to the budget.",
        "B was to compute 5 tokens in this step, in blocks that it does not hold any more. What about them?",
        answer,
        make_room=True,
        RUNNING=["A", "C"],
        WAITING=["B"],
        plan=[("A", 1)],
        budget_left=9,
        preempted=[("B", "C", 5)],
        block_tables={"A": [1, 2], "C": [5, 6, 3]},
    )


@pytest.mark.task3_4
def test_planned_and_unplanned_victims(phase3: ModuleType) -> None:
    running = [runner("A", 4, 5), runner("B", 4, 7), runner("C", 4, 1), runner("D", 4, 6)]
    running[2].all_token_ids += range(20)
    bench = RoomBench(running, num_blocks=4, plan={"A": 2, "B": 3}, budget=5)
    answer = bench.make_room(phase3.RecomputePreemption("priority"), running[2], 12)
    bench.check(
        "Each victim is entered with the tokens that came back for it; 0 if it was not planned.",
        "which of B, D and A were in the plan, and with how many tokens?",
        answer,
        make_room=True,
        RUNNING=["C"],
        plan=[],
        budget_left=10,
        preempted=[("B", "C", 3), ("D", "C", 0), ("A", "C", 2)],
        block_tables={"C": [3, 1, 2, 4]},
    )


@pytest.mark.task3_4
def test_least_urgent_in_the_middle_is_its_own_victim(phase3: ModuleType) -> None:
    running = [runner("A", 8, 1), runner("B", 8, 2), runner("C", 8, 1)]
    bench = RoomBench(running, num_blocks=6, plan={"A": 1}, budget=9)
    answer = bench.make_room(phase3.RecomputePreemption("priority"), running[1], 1)
    bench.check(
        "Under priority the least urgent gives way even if it is the one in need, and even if others came later.",
        "who has the largest priority number?",
        answer,
        make_room=False,
        RUNNING=["A", "C"],
        WAITING=["B"],
        plan=[("A", 1)],
        budget_left=9,
        preempted=[("B", "B", 0)],
        block_tables={"A": [1, 2], "C": [5, 6]},
    )


@pytest.mark.task3_4
def test_priority_victims_find_their_place_in_the_queue(phase3: ModuleType) -> None:
    queue = phase3.PriorityRequestQueue()
    for request in (waiter("W", 3, 0.0), waiter("X", 0, 5.0)):
        queue.add_request(request)
    running = [runner("A", 8, 0, 9.0), runner("B", 4, 4, 1.0), runner("C", 4, 2, 1.0)]
    bench = RoomBench(running, num_blocks=4, queue=queue)
    answer = bench.make_room(phase3.RecomputePreemption("priority"), running[0], 8)
    bench.check(
        "Under priority a victim goes back to where its priority belongs, not to the front.",
        "W has priority 3. Which victim stands before it, and which behind?",
        answer,
        make_room=True,
        RUNNING=["A"],
        WAITING=["X", "C", "W", "B"],
        preempted=[("B", "A", 0), ("C", "A", 0)],
    )


@pytest.mark.task3_4
def test_an_empty_list_ends_the_evictions(phase3: ModuleType) -> None:
    running = [runner(name) for name in "ABC"]
    bench = RoomBench(running, num_blocks=0, tables={}, kv=ScriptedKV([None, []]))
    answer = bench.make_room(phase3.RecomputePreemption("fcfs"), running[0], 1)
    compare(
        "allocate_slots answers [] when the last block has room: that is a success, and evicting ends.",
        before=bench.before,
        expected={"make_room": True, "A still runs": True},
        yours={"make_room": answer, "A still runs": running[0] in bench.running},
        hint="`if blocks` and `if blocks is not None` differ for one value. Which?",
        calls=bench.kv.calls,
    )


@pytest.mark.task3_4
def test_the_caller_sees_it_in_his_own_lists(phase3: ModuleType) -> None:
    running = [runner(name) for name in "AB"]
    bench = RoomBench(running, num_blocks=4, plan={"B": 2}, budget=3)
    answer = bench.make_room(phase3.RecomputePreemption("fcfs"), running[0], 1)
    bench.check(
        "Victims leave the list that was passed in, and the plan that was passed in: the scheduler goes on with them.",
        "do you change the caller's list, or a new one?",
        answer,
        make_room=True,
        RUNNING=["A"],
        plan=[],
        budget_left=5,
        preempted=[("B", "A", 2)],
    )


@pytest.mark.task3_4
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_make_room_agrees_with_a_slow_model(phase3: ModuleType, policy: Policy, seed: int) -> None:
    rng = random.Random(seed)
    fail_with_smallest([_room_differs(phase3, policy, rng) for _ in range(NUM_STATES)])


def _room_differs(phase3: ModuleType, policy: Policy, rng: random.Random) -> str:
    """Let running requests ask for memory over two steps; return the report of the first call that differs."""
    bench, model = _random_room(phase3, policy, rng)
    preemption = phase3.RecomputePreemption(policy)
    other_policy: Policy = "priority" if policy == "fcfs" else "fcfs"
    phase3.RecomputePreemption(other_policy)
    for _ in range(2):
        bench.step = SchedulerOutput(rng.randint(5, 30))
        model.plan, model.budget, model.preempted = [], bench.step.token_budget, []
        for request in tuple(bench.running):
            name, amount = request.request_id, min(request.num_tokens - request.num_computed_tokens, 9)
            if name not in model.running or amount == 0 or model.budget < amount:
                continue
            if not model.take(name, amount):
                report, served = _one_call_differs(bench, model, preemption, request, amount)
                if report:
                    return report
                if not served:
                    break
            else:
                bench.kv.allocate_slots(request, amount)
            model.plan.append((name, amount))
            model.budget -= amount
            bench.step.num_scheduled_tokens[name] = amount
            bench.step.token_budget -= amount
        for name, amount in model.plan:
            _advance(bench.requests[name], amount)
            model.advance(name, amount)
    return ""


def _one_call_differs(
    bench: RoomBench, model: PlainRoom, preemption: object, request: Request, amount: int
) -> tuple[str, bool]:
    name = request.request_id
    before = RoomBench(
        bench.running,
        bench.kv.num_usable_blocks,
        block_size=bench.kv.block_size,
        tables=bench.kv.tables,
        queue=bench.waiting,
        plan=bench.step.num_scheduled_tokens,
        budget=bench.step.token_budget,
    ).before
    bench.kv.calls.clear()
    model.freed.clear()
    answer = bench.make_room(preemption, request, amount)
    served = model.make_room(name, amount)
    report = difference(
        "A random call of make_room does not follow the numbered rules in the starter.",
        before=[
            *before,
            f"make_room({name}, {amount}), policy {model.policy} (an object for the other policy was made since)",
        ],
        expected=model.outcome(served),
        yours=bench.outcome(answer),
        hint="who gives way first, and what has changed before memory is asked again?",
        calls=bench.kv.calls,
    )
    return report, served


def _advance(request: Request, amount: int) -> None:
    """Count the planned tokens as computed; who has caught up gets one token more."""
    request.num_computed_tokens += amount
    if request.num_computed_tokens == request.num_tokens:
        request.all_token_ids.append(7)


def _random_room(phase3: ModuleType, policy: Policy, rng: random.Random) -> tuple[RoomBench, PlainRoom]:
    """Return running requests in a memory with little room, some of them sharing their first blocks."""
    names = rng.sample("ABCDEFGH", rng.randint(2, 8))
    num_running = rng.randint(1, min(6, len(names)))
    block_size = rng.choice((1, 2, 4))
    running = [_random_runner(rng, name) for name in names[:num_running]]
    waiting = [waiter(name, rng.randint(0, 2), rng.choice((0.0, 1.0))) for name in names[num_running:]]
    tables = own_blocks(running, block_size)
    for table, other in zip(list(tables.values())[1:], tables.values(), strict=False):
        if rng.random() < 0.3:
            num_shared = rng.randint(0, min(len(table), len(other)))
            table[:num_shared] = other[:num_shared]
    held = sorted({block_id for table in tables.values() for block_id in table})
    new_id = {block_id: index for index, block_id in enumerate(held, start=1)}
    tables = {name: [new_id[block_id] for block_id in table] for name, table in tables.items()}
    num_blocks = len(held) + rng.choice((0, 0, 1, 2))
    queue: RequestQueue = waiting_queue([])
    if policy == "priority":
        queue = phase3.PriorityRequestQueue()
    for request in waiting:
        queue.add_request(request)
    bench = RoomBench(running, num_blocks, block_size=block_size, tables=tables, queue=queue)
    model = PlainRoom(
        policy,
        block_size,
        num_blocks,
        {
            name: PlainRequest(
                r.priority, r.arrival_time, r.num_tokens, r.num_computed_tokens, r.status.name, r.num_preemptions
            )
            for name, r in bench.requests.items()
        },
        [r.request_id for r in running],
        [r.request_id for r in waiting],
        {name: list(table) for name, table in tables.items()},
    )
    if policy == "priority":
        model.waiting.sort(key=lambda name: (model.requests[name].priority, model.requests[name].arrival_time, name))
    return bench, model


def _random_runner(rng: random.Random, name: str) -> Request:
    num_output = rng.choice((0, 0, 1, 3))
    num_prompt = rng.randint(2, 12)
    num_tokens = num_prompt + num_output
    num_computed = num_tokens - 1 if rng.random() < 0.5 else rng.randint(1, num_tokens - 1)
    request = make_request(
        name,
        num_prompt,
        num_computed_tokens=num_computed,
        num_output_tokens=num_output,
        priority=rng.randint(0, 2),
        arrival_time=rng.choice((0.0, 1.0, 2.0)),
    )
    request.num_preemptions = rng.choice((0, 0, 2))
    return request
