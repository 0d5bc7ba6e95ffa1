"""Graded tests of task 3.1."""

import random
from itertools import count
from types import ModuleType

import pytest

from course.labtest.cost import check_keeps_nothing
from course.labtest.expect import difference_report, expect_equal, fail_with_smallest, naming
from course.labtest.phase3.cases import NUM_STATES, RANKS, SEEDS, waiter
from course.labtest.phase3.queue_harness import PriorityQueueHarness, expected_state
from course.labtest.support import some_ids
from mini_vllm.core.request import Request


def test_the_smallest_priority_number_comes_first(phase3: ModuleType) -> None:
    harness = PriorityQueueHarness(phase3)
    harness.add(waiter("A", 501, 1), waiter("B", -1, 5), waiter("C", 3, 3), waiter("D", 0, 4), waiter("E", 500, 2))
    harness.check(
        "A smaller number is more urgent, below 0 too, whenever the request came.",
        "which request is served first, and what does your queue compare first?",
        list("BDCEA"),
    )


def test_ties_go_to_the_earlier_arrival(phase3: ModuleType) -> None:
    harness = PriorityQueueHarness(phase3)
    harness.add(waiter("A", 1, 2.5), waiter("B", 1, 0.5), waiter("C", 0, 9.0), waiter("D", 1, 1.5))
    harness.check(
        "Of equal priority, the earlier arrival comes first.",
        "what does your queue compare when two priorities are equal?",
        list("CBDA"),
    )


def test_full_ties_go_by_the_id_as_a_string(phase3: ModuleType) -> None:
    harness = PriorityQueueHarness(phase3)
    harness.add(*(waiter(name, 1, 1.0) for name in ("9", "b", "10", "a", "B")))
    harness.check(
        "Of equal priority and arrival the id decides, compared as a string: '10' comes before '9'.",
        "what does your queue compare when priority and arrival time are equal?",
        ["10", "9", "B", "a", "b"],
    )


def test_prepending_does_not_jump_the_queue(phase3: ModuleType) -> None:
    harness = PriorityQueueHarness(phase3)
    harness.add(waiter("A", 0, 1.0), waiter("B", 2, 0.0))
    harness.prepend(waiter("V", 1, 0.0))
    harness.prepend(waiter("W", 0, 0.5))
    harness.check(
        "A preempted request finds its place by the same rule as any other: there is no front to go back to.",
        "write (priority, arrival time) under each of them: which has another place in yours, and what put it there?",
        list("WAVB"),
    )
    harness.add(waiter("D", 2, 0.0))
    harness.prepend(waiter("C", 2, 1.0))
    harness.check(
        "A preempted request finds its place by the same rule as any other: there is no front to go back to.",
        "write (priority, arrival time) under C and D: which of the two is first, and what puts yours there?",
        ["D", "C"],
    )


def test_peek_and_iteration_take_nothing_out(phase3: ModuleType) -> None:
    harness = PriorityQueueHarness(phase3)
    harness.add(*(waiter(name, priority) for name, priority in zip("ABCDEF", (5, 4, 3, 2, 1, 0), strict=True)))
    for look in range(2):
        yours = harness.state()
        expect_equal(
            yours,
            expected_state("FEDCBA"),
            rule="Looking changes nothing, and iteration goes in service order.",
            situation=harness.story,
            hint="which methods of yours change the queue?"
            if look or yours["order"] == list("FEDCBA")
            else "in which order does your code keep the requests, and in which does iteration give them?",
        )
    harness.check("Looking changes nothing.", "which methods of yours change the queue?", list("FEDCBA"))


def test_the_very_request_comes_out(phase3: ModuleType) -> None:
    harness = PriorityQueueHarness(phase3)
    request = waiter("A")
    harness.add(request)
    expect_equal(
        {
            "peek_request": harness.name(harness.queue.peek_request()),
            "iteration": harness.name(next(iter(harness.queue))),
            "pop_request": harness.name(harness.pop()),
        },
        dict.fromkeys(("peek_request", "iteration", "pop_request"), "A"),
        rule="The queue returns the request that was put in, not a copy and not a tuple around it.",
        situation=harness.story,
        hint="what does each of these methods return: what was put in, something around it, or a copy?",
    )


def test_an_empty_queue_is_empty(phase3: ModuleType) -> None:
    harness = PriorityQueueHarness(phase3)
    yours = {**harness.state(), "bool(queue)": bool(harness.queue)}
    expect_equal(
        yours,
        {**expected_state([]), "bool(queue)": False},
        rule="A new queue has length 0: that is how `while waiting` ends.",
        situation=harness.story,
        hint="what does `len` of your queue return?",
    )
    request = waiter("A")
    harness.add(request)
    harness.remove(request)
    harness.check("An emptied queue has length 0.", "A was removed: what of it is left, and which methods see it?", [])


@pytest.mark.parametrize("start", [0.0, 1.75e9], ids=["at second 0", "in 2025"])
def test_parts_of_a_second_count(phase3: ModuleType, start: float) -> None:
    harness = PriorityQueueHarness(phase3)
    for name, seconds in zip("ABCD", (0.75, 0.25, 0.5, 0.0), strict=True):
        harness.add(waiter(name, 1, start + seconds))
    harness.check(
        "Arrival times are compared as they are, parts of a second included.",
        "which of the four came first, and which number does your entry have for its arrival?",
        list("DBCA"),
    )


def test_the_order_is_new_after_each_change(phase3: ModuleType) -> None:
    harness = PriorityQueueHarness(phase3)
    requests = {name: waiter(name, p) for name, p in zip("ABC", (1, 2, 3), strict=True)}
    harness.add(*requests.values())
    harness.state()
    harness.remove(requests["A"])
    harness.add(waiter("D", 9))
    harness.check(
        "Iteration goes over the requests that are in the queue now.",
        "A was removed and D added since the last look. What did each of the two change where iteration looks now?",
        list("BCD"),
    )


@pytest.mark.parametrize("index", range(7))
def test_remove_takes_out_any_request(phase3: ModuleType, index: int) -> None:
    harness = PriorityQueueHarness(phase3)
    requests = [waiter(name, p) for name, p in zip("ABCDEFG", (0, 5, 1, 6, 7, 2, 3), strict=True)]
    harness.add(*requests)
    harness.remove(requests[index])
    harness.check(
        "A request can be removed from anywhere, and the others keep their order.",
        "which requests are left, and what keeps them in order after the removal?",
        [name for name in "ACFGBDE" if name != requests[index].request_id],
    )


def test_a_removed_request_can_come_back(phase3: ModuleType) -> None:
    harness = PriorityQueueHarness(phase3)
    requests = {name: waiter(name, p) for name, p in zip("ABC", (1, 2, 3), strict=True)}
    harness.add(*requests.values())
    harness.remove(requests["B"])
    requests["B"].priority = 0
    harness.add(requests["B"])
    harness.check("A request that was removed may be added again.", "what of B is left after its removal?", list("BAC"))


def test_a_popped_request_can_come_back_with_another_rank(phase3: ModuleType) -> None:
    harness = PriorityQueueHarness(phase3)
    first, second = waiter("A", 0), waiter("B", 1)
    harness.add(first, second)
    harness.pop()
    first.priority = 2
    harness.prepend(first)
    harness.check(
        "A request is ordered by the rank that it has when it is put in.",
        "A was put in twice. Which of the two ranks does your queue compare?",
        list("BA"),
    )


@pytest.mark.parametrize("priority", [-5, 5])
def test_a_rank_that_changes_later_does_not_count(phase3: ModuleType, priority: int) -> None:
    harness = PriorityQueueHarness(phase3)
    requests = {name: waiter(name, p) for name, p in zip("ABCD", (3, 1, 4, 2), strict=True)}
    harness.add(*requests.values())
    harness.state()
    requests["A"].priority = priority
    harness.story.append(f"A.priority = {priority}")
    harness.check(
        "The rank is that of the moment when the request is put in: a queue whose entries change their order while "
        "they lie in it finds nothing any more.",
        "at which moment does your code read the priority that it compares?",
        list("BDAC"),
    )
    harness.add(*requests.values())
    requests["A"].priority = 3
    harness.story.append("A.priority = 3")
    harness.remove(requests["A"])
    harness.check(
        "A request can be removed whatever became of its rank since it was put in.",
        "by what does your remove_request find A, whose rank is another one now? What keeps the others in order?",
        list("BDC"),
    )


def test_a_queue_keeps_nothing_of_requests_that_left(phase3: ModuleType) -> None:
    queue, clock = phase3.PriorityRequestQueue(), count()

    def use(name: str) -> None:  # a queue may keep a few for a while
        first, second = waiter(name, 1, next(clock)), waiter(f"{name}, too", 1, next(clock))
        for request in (first, second):
            queue.add_request(request)
        queue.pop_request()
        queue.remove_request(second)

    check_keeps_nothing(
        phase3,
        use,
        queue,
        what="times two requests were added, one popped and one removed",
        rule="A queue remembers the requests that are in it and no others: a server would never forget the rest.",
        hint="which of your dicts, lists and sets grows when a request comes, and does not shrink when it goes?",
    )


def _queue_differs(phase3: ModuleType, rng: random.Random, many: int) -> str:
    harness = PriorityQueueHarness(phase3)
    inside: list[Request] = []
    ranks = rng.choice(RANKS)
    ids = some_ids(rng, 10 * many)
    outside = [waiter(name, rng.choice(ranks[0]), rng.choice(ranks[1])) for name in ids]
    num_uses = rng.randint(4, 20) * many
    for turn in range(2 * num_uses):
        if rng.random() < 0.05:
            harness.use_another()
        act = rng.choice(("add", "add", "prepend", "pop", "remove")) if turn < num_uses else "pop"
        popped: object = None
        next_one: object = None
        if act in ("add", "prepend") and outside:
            request = outside.pop(rng.randrange(len(outside)))
            inside.append(request)
            inside.sort(key=lambda r: (r.priority, r.arrival_time, r.request_id))
            (harness.add if act == "add" else harness.prepend)(request)
        elif act == "pop" and inside:
            outside.append(inside.pop(0))
            popped, next_one = harness.name(harness.pop()), outside[-1].request_id
        elif act == "remove" and inside:
            outside.append(inside.pop(rng.randrange(len(inside))))
            harness.remove(outside[-1])
        yours = {"popped": popped, **harness.state()}
        expected = {"popped": next_one, **expected_state([r.request_id for r in inside])}
        report = difference_report(
            yours,
            expected,
            rule=naming("After these uses your queue and a sorted list differ.", yours, expected),
            situation=harness.story,
            hint="sort the requests that are in the queue by hand. After which use does that no longer agree, and what "
            "does it change in your queue?",
        )
        if report:
            return report
    return ""


@pytest.mark.parametrize("seed", SEEDS)
def test_queue_agrees_with_a_sorted_list(phase3: ModuleType, seed: int) -> None:
    rng = random.Random(seed)
    fail_with_smallest([_queue_differs(phase3, rng, many) for many in (*[1] * NUM_STATES, 3, 3, 3)])
