"""Graded tests of task 3.1."""

import random
from types import ModuleType

import pytest

from course.labtest.phase3.cases import NUM_STATES, SEEDS, waiter
from course.labtest.phase3.harness import QueueBench, expected_state
from course.labtest.support import (
    compare,
    difference,
    fail_with_smallest,
)
from mini_vllm.core.request import Request


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


def test_the_smallest_priority_number_comes_first(phase3: ModuleType) -> None:
    bench = QueueBench(phase3)
    bench.add(waiter("A", 5), waiter("B", -1), waiter("C", 3), waiter("D", 0))
    bench.check("A smaller number is more urgent, below 0 too.", "which request is looked at first?", list("BDCA"))


def test_ties_go_to_the_earlier_arrival(phase3: ModuleType) -> None:
    bench = QueueBench(phase3)
    bench.add(waiter("A", 1, 2.5), waiter("B", 1, 0.5), waiter("C", 0, 9.0), waiter("D", 1, 1.5))
    bench.check(
        "Of equal priority, the earlier arrival comes first.",
        "is the arrival time the second thing that your queue compares?",
        list("CBDA"),
    )


def test_full_ties_go_by_the_id_as_a_string(phase3: ModuleType) -> None:
    bench = QueueBench(phase3)
    bench.add(*(waiter(name, 1, 1.0) for name in ("9", "b", "10", "a", "B")))
    bench.check(
        "Of equal priority and arrival the id decides, compared as a string: '10' comes before '9'.",
        "what does your queue compare when priority and arrival time are equal?",
        ["10", "9", "B", "a", "b"],
    )


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


def test_a_removed_request_can_come_back(phase3: ModuleType) -> None:
    bench = QueueBench(phase3)
    requests = {name: waiter(name, p) for name, p in zip("ABC", (1, 2, 3), strict=True)}
    bench.add(*requests.values())
    bench.remove(requests["B"])
    requests["B"].priority = 0
    bench.add(requests["B"])
    bench.check("A request that was removed may be added again.", "is anything left of its first stay?", list("BAC"))


@pytest.mark.parametrize("seed", SEEDS)
def test_queue_agrees_with_a_sorted_list(phase3: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    fail_with_smallest([_queue_differs(phase3, rng) for _ in range(NUM_STATES)])
