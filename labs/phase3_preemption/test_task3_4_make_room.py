"""Graded tests of task 3.4: one call of `make_room`."""

from types import ModuleType

from course.labtest.phase3.cases import runner, waiter
from course.labtest.phase3.room_harness import RoomHarness
from course.labtest.support import make_request


def test_fcfs_preempts_the_last_one(phase3: ModuleType) -> None:
    running = [runner(name) for name in "ABC"]
    harness = RoomHarness(running, num_blocks=6, waiting=[waiter("W")], plan={})
    harness.make_room(phase3.RecomputePreemption("fcfs"), running[0], 1)
    harness.check(
        "The last of RUNNING is preempted and goes to the front of WAITING; the request in need holds its slots then.",
        "1 block is needed and C holds 2. Where does C go, and what does A hold then?",
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
    harness = RoomHarness(running, num_blocks=6, waiting=[waiter("W")])
    harness.make_room(phase3.RecomputePreemption("fcfs"), running[0], 12)
    harness.check(
        "One victim after the other is preempted, and no more than needed. The last victim stands first in WAITING, so "
        "that the waiting requests are in order of arrival again.",
        "3 blocks are needed, and each victim holds 1. How many are preempted, and in which order do they wait?",
        make_room=True,
        RUNNING=["A", "B"],
        WAITING=["C", "D", "E", "W"],
        preempted=[("E", "A", 0), ("D", "A", 0), ("C", "A", 0)],
        block_tables={"A": [1, 2, 4, 5, 6], "B": [3]},
    )


def test_as_many_victims_as_it_takes(phase3: ModuleType) -> None:
    running = [make_request("A", 4000, num_computed_tokens=4), *(runner(f"r{number}", 4) for number in range(600))]
    harness = RoomHarness(running, num_blocks=601)
    harness.make_room(phase3.RecomputePreemption("fcfs"), running[0], 4 * 599)
    harness.check(
        "Victims are preempted until the request in need holds its slots, however many that takes.",
        "599 blocks are needed, and each victim holds 1. How many times may your loop go round?",
        make_room=True,
        RUNNING=["A", "r0"],
        WAITING=[f"r{number}" for number in range(1, 600)],
    )


def test_a_victim_whose_blocks_are_shared_frees_too_little(phase3: ModuleType) -> None:
    running = [runner(name) for name in "ABCD"]
    tables = {"A": [1, 2], "B": [1, 3], "C": [1, 4], "D": [1, 4]}
    harness = RoomHarness(running, num_blocks=4, tables=tables)
    harness.make_room(phase3.RecomputePreemption("fcfs"), running[0], 1)
    harness.check(
        "Preempting a victim may free nothing, because others hold its blocks too. Memory is asked again after each "
        "victim.",
        "D's blocks are C's too. How does your code find out whether D was enough?",
        make_room=True,
        RUNNING=["A", "B"],
        WAITING=["C", "D"],
        preempted=[("D", "A", 0), ("C", "A", 0)],
        block_tables={"A": [1, 2, 4], "B": [1, 3]},
    )


def test_its_own_victim_holds_nothing(phase3: ModuleType) -> None:
    running = [runner(name) for name in "ABC"]
    harness = RoomHarness(running, num_blocks=6, waiting=[waiter("W")], plan={"A": 1, "B": 1}, budget=8)
    harness.make_room(phase3.RecomputePreemption("fcfs"), running[2], 1)
    harness.check(
        "If the victim is the request in need itself, make_room ends with False, and the request holds nothing. Its "
        "preemption is recorded like any other.",
        "C is the one in need and the victim. What is done with any victim, and what may C hold afterwards?",
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
    harness = RoomHarness(running, num_blocks=4)
    harness.make_room(phase3.RecomputePreemption("fcfs"), running[0], 30)
    harness.check(
        "If even the memory of all the others is too little, the request itself is the last victim.",
        "which requests are left in RUNNING when C and B are preempted?",
        make_room=False,
        RUNNING=[],
        WAITING=["A", "B", "C"],
        preempted=[("C", "A", 0), ("B", "A", 0), ("A", "A", 0)],
        block_tables={},
    )


def test_a_planned_victim_leaves_the_plan(phase3: ModuleType) -> None:
    running = [runner("A", 8, priority=0), runner("B", 8, priority=9), runner("C", 8, priority=1)]
    harness = RoomHarness(running, num_blocks=6, plan={"A": 1, "B": 5}, budget=4)
    harness.make_room(phase3.RecomputePreemption("priority"), running[2], 1)
    harness.check(
        "A victim that this step had planned leaves the plan, and its tokens go back to the budget.",
        "B was to compute 5 tokens in this step, in blocks that it does not hold any more. Where do those 5 tokens go?",
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
    harness = RoomHarness(running, num_blocks=4, plan={"A": 2, "B": 3}, budget=5)
    harness.make_room(phase3.RecomputePreemption("priority"), running[2], 12)
    harness.check(
        "Each victim is recorded with the tokens that its plan returned; 0 if it was not planned.",
        "which of B, D and A were in the plan, and with how many tokens?",
        make_room=True,
        RUNNING=["C"],
        plan=[],
        budget_left=10,
        preempted=[("B", "C", 3), ("D", "C", 0), ("A", "C", 2)],
        block_tables={"C": [3, 1, 2, 4]},
    )


def test_least_urgent_in_the_middle_is_its_own_victim(phase3: ModuleType) -> None:
    running = [runner("A", 8, 1), runner("B", 8, 2), runner("C", 8, 1)]
    harness = RoomHarness(running, num_blocks=6, plan={"A": 1}, budget=9)
    harness.make_room(phase3.RecomputePreemption("priority"), running[1], 1)
    harness.check(
        "Under priority the least urgent is the victim even if it is the one in need, and even if others came later.",
        "which request has the largest priority number, and what may it hold when make_room returns?",
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
    harness = RoomHarness(running, num_blocks=4, queue=queue)
    harness.make_room(phase3.RecomputePreemption("priority"), running[0], 8)
    harness.check(
        "Under priority a victim goes back to where its priority belongs, not to the front.",
        "W has priority 3, the victims B and C have 4 and 2. Which of them is served before W, and which after it?",
        make_room=True,
        RUNNING=["A"],
        WAITING=["X", "C", "W", "B"],
        preempted=[("B", "A", 0), ("C", "A", 0)],
    )


def test_victims_leave_the_lists_that_were_passed_in(phase3: ModuleType) -> None:
    running = [runner(name) for name in "AB"]
    harness = RoomHarness(running, num_blocks=4, plan={"B": 2}, budget=3)
    harness.make_room(phase3.RecomputePreemption("fcfs"), running[0], 1)
    harness.check(
        "Victims leave the list that was passed in, and the plan that was passed in: the scheduler goes on with them.",
        "which objects does the scheduler go on with, and which ones does your code change?",
        make_room=True,
        RUNNING=["A"],
        plan=[],
        budget_left=5,
        preempted=[("B", "A", 2)],
    )
