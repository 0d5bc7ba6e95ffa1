"""Graded tests of task 3.4."""

import random
from types import ModuleType

import pytest

from course.labtest.phase3.cases import NUM_STATES, SEEDS, runner, waiter
from course.labtest.phase3.doubles import ScriptedKV
from course.labtest.phase3.harness import RoomBench, own_blocks
from course.labtest.phase3.reference_model import PlainRequest, PlainRoom
from course.labtest.support import (
    compare,
    difference,
    fail_with_smallest,
    make_request,
    waiting_queue,
)
from mini_vllm.config import Policy
from mini_vllm.core.request import Request
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.seams.interfaces import RequestQueue


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


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_make_room_agrees_with_a_slow_model(phase3: ModuleType, policy: Policy, seed: int) -> None:
    rng = random.Random(seed)
    fail_with_smallest([_room_differs(phase3, policy, rng) for _ in range(NUM_STATES)])
