"""Questions to the parts of the scheduler: phase 3."""

from collections import deque
from random import Random
from types import SimpleNamespace
from typing import Any

from classroom.judge.question import MAX_CASES, JudgeQuestion
from classroom.judge.script import Script
from classroom.worker.doubles import (
    Memory,
    ReservedMemory,
)
from course.labtest.phase3.random_room import random_room, three_steps
from course.labtest.strict_queue import StrictQueue
from course.labtest.support import make_request, some_ids, with_a_past
from mini_vllm.config import Policy
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import SchedulerOutput

NUM_CALLS_FOR_ROOM = 16


def some_requests(rng: Random, num_requests: int) -> list[Request]:
    """Requests with few priorities and few arrival times, so that there are ties, far apart and very close ones."""
    return [ranked(rng, Request(name, [1])) for name in some_ids(rng, num_requests)]


def ranked(rng: Random, request: Request) -> Request:
    """Give a request another rank, or the one that many have."""
    request.priority = rng.choice((rng.randrange(-1, 3), rng.randrange(-1, 3), 10**8, 10**8 + 1, -(10**8), 101, 102))
    request.arrival_time = rng.randrange(4) + rng.choice((0.0, 0.0, 1e-4, 0.25, 5.0, 1.7e9, 1.7e9 + 1e-4))
    if rng.random() < 0.3:
        request.priority, request.arrival_time = 1, 2.0 + rng.choice((0.0, 0.0, 1e-4, 2e-4, 0.25, 0.5))
    return request


def priority_queue_operations(rng: Random) -> JudgeQuestion:
    """Requests that are added, prepended, peeked, popped and removed."""
    script, outside = Script(3), some_requests(rng, rng.choice((8, 64)))
    queues = [script.functions.PriorityRequestQueue() for _ in range(2)]
    for _ in range(2 * MAX_CASES):
        queue = rng.choice((queues[0], *queues))
        inside = list(queue)
        match rng.choice(("add", "add", "prepend", "peek", "pop", "remove")):
            case "add" | "prepend" as name if outside:
                request = outside.pop(rng.randrange(len(outside)))
                if rng.random() < 0.5:
                    ranked(rng, request)
                (queue.add_request if name == "add" else queue.prepend_request)(request)
            case "remove" if inside:
                outside.append(rng.choice(inside))
                queue.remove_request(outside[-1])
            case "peek" if inside:
                queue.peek_request()
            case "pop" if inside:
                outside.append(queue.pop_request())
    lopsided = script.functions.PriorityRequestQueue()  # as a heap: its left half is far behind the right one
    for place in range(31):
        is_left = f"{place + 1:b}"[1:2] == "0"
        lopsided.add_request(Request(f"n{place}", [1], priority=place + 1000 * is_left))
    for request in rng.sample(list(lopsided), 8):
        lopsided.remove_request(request)
    near = script.functions.PriorityRequestQueue()  # of one priority; ids are no help, and every other one is a victim
    for place in rng.sample(range(16), 16):
        request = Request(f"v{15 - place:02}", [1], arrival_time=1 + place / 10**8)
        request.status = (RequestStatus.WAITING, RequestStatus.PREEMPTED)[place % 2]
        (near.prepend_request if place % 2 else near.add_request)(request)
    for one in (*queues, lopsided, near):
        empty(one, script, outside, rng)
    return script.question()


def empty(queue: Any, script: Script, outside: list[Request], rng: Random) -> None:
    """Fill a queue up, take some out of it, then some whose ranks have changed, which is no matter; pop the rest."""
    while outside:
        queue.add_request(outside.pop())
    for _ in range(len(queue) // 3):
        outside.append(queue.pop_request())
    for request in rng.sample(list(queue), len(queue) // 3):
        queue.remove_request(request)
        outside.append(request)
    for request in list(queue)[::2]:  # the next call shows their ranks to the worker
        script.functions.choose_victim([ranked(rng, request)], "fcfs")
    for request in list(queue)[:5:2]:
        queue.remove_request(request)
    while queue:
        queue.peek_request()
        queue.pop_request()


def victim_cases(rng: Random) -> JudgeQuestion:
    """Running lists of some requests under both policies."""
    script = Script(3)
    for number in (80, 80, *(rng.randrange(1, 7) for _ in range(12))):
        requests = [with_a_past(rng, request) for request in some_requests(rng, number)]
        script.functions.choose_victim(requests, rng.choice(("fcfs", "priority", "priority")))
    return script.question()


def rooms_fcfs(rng: Random) -> JudgeQuestion:
    """Running requests of which several must be preempted, first come first served."""
    return rooms(rng, "fcfs")


def rooms_by_priority(rng: Random) -> JudgeQuestion:
    """Running requests of which several must be preempted, most of them planned already."""
    return rooms(rng, "priority")


def rooms(rng: Random, policy: Policy) -> JudgeQuestion:
    """Steps in memories with little room, for one engine among others of the same process.

    The queue is the reference's, so that a mistake in the learner's costs nothing here.
    """
    script = Script(3)
    queue, preemption = script.file.PriorityRequestQueue, script.functions.RecomputePreemption
    preemption("priority" if policy == "fcfs" else "fcfs")
    phase3: Any = SimpleNamespace(PriorityRequestQueue=queue, RecomputePreemption=preemption)
    is_large = False
    while not is_large:
        # The last room has many requests; more such rooms would make an answer of several megabytes.
        is_large = sum(name == "make_room" for _, name, _ in script.calls) >= NUM_CALLS_FOR_ROOM
        room = random_room(rng, 8 if is_large else 1)
        for request in (*room["running"], *room["waiting"]):
            request.block_hashes = [b"phase 4's"]
        deque(three_steps(phase3, policy, **room), maxlen=0)
    for num_computed in (0, 1):  # a victim may have computed nothing yet, and may free no block that is needed
        running = [make_request(name, 4, num_computed_tokens=2) for name in some_ids(rng, 3)]
        tables = {request.request_id: [number] for number, request in enumerate(running)}
        running[-1].priority, running[-1].num_computed_tokens = 3, num_computed
        running[0].spec_token_ids = [5]
        memory, plan = ReservedMemory(2, [], tables), SchedulerOutput(9)
        preemption(policy).make_room(running[0], 1, running, StrictQueue(), plan, memory)
    several_victims(rng, policy, preemption(policy))
    return script.question()


def several_victims(rng: Random, policy: Policy, preemption: Any) -> None:
    """One request needs the blocks of 70 others; by priority their tokens, which were planned already, return."""
    asking, *others = (make_request(name, 142, num_computed_tokens=2) for name in some_ids(rng, 80))
    tables = {request.request_id: [number] for number, request in enumerate((asking, *others))}
    for rank, request in enumerate(others):
        request.priority = rank + 1
    plan = SchedulerOutput(9)
    if policy == "priority":
        plan.num_scheduled_tokens |= {request.request_id: rng.randrange(1, 9) for request in others}
    running = [*others, asking] if policy == "priority" else [asking, *others]
    preemption.make_room(asking, 140, running, StrictQueue(), plan, Memory(2, [], tables))
