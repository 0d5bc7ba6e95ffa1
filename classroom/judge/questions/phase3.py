"""Questions to phase 3: its queue, and which requests are preempted."""

from random import Random
from typing import Any

from classroom.judge.questions.trial import MAX_CASES, Trial, trial
from mini_vllm.config import Policy
from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.request import Request, RequestStatus


def some_requests(rng: Random, num_requests: int) -> list[Request]:
    """Requests with few priorities and few arrival times, so that there are ties."""
    names = rng.sample([f"r{number}" for number in range(30)], num_requests)
    return [Request(name, [1], priority=rng.randrange(-1, 3), arrival_time=float(rng.randrange(4))) for name in names]


def priority_queue_operations(rng: Random) -> Trial:
    """Requests that are added, prepended, peeked, popped and removed."""
    requests = some_requests(rng, 10)
    inside, operations = set[int](), list[tuple[Any, ...]]()
    for _ in range(MAX_CASES):
        outside = sorted(set(range(len(requests))) - inside)
        name = rng.choice(("add_request", "add_request", "prepend_request", "peek_request", "pop_request", "remove"))
        if name in ("add_request", "prepend_request") and outside:
            number = rng.choice(outside)
            inside.add(number)
            operations.append((name, number))
        elif name == "remove" and inside:
            number = rng.choice(sorted(inside))
            inside.remove(number)
            operations.append(("remove_request", number))
        elif name in ("peek_request", "pop_request") and inside:
            operations.append((name,))
            if name == "pop_request":
                inside.remove(min(inside, key=lambda number: place_of(requests[number])))
    return trial(3, "priority_queue", requests, operations)


def place_of(request: Request) -> tuple[int, float, str]:
    """Return the sort key of the priority queue, as in phase 3's handout."""
    return request.priority, request.arrival_time, request.request_id


def victim_cases(rng: Random) -> Trial:
    """Running lists of some requests under both policies."""
    cases = [(some_requests(rng, rng.randrange(1, 7)), rng.choice(("fcfs", "priority", "priority"))) for _ in range(12)]
    return trial(3, "choose_victim", cases)


def rooms_fcfs(rng: Random) -> Trial:
    """Running requests of which several must be preempted, first come first served."""
    return rooms(rng, "fcfs")


def rooms_by_priority(rng: Random) -> Trial:
    """Running requests of which several must be preempted, most of them planned already."""
    return rooms(rng, "priority")


def rooms(rng: Random, policy: Policy) -> Trial:
    block_size = rng.choice((1, 2, 3, 4))
    return trial(3, "make_room", policy, block_size, [room(rng, policy, block_size) for _ in range(12)])


def room(rng: Random, policy: Policy, block_size: int) -> tuple[list[Request], int, int, list[Any]]:
    """Return the running requests, the index of the one that needs memory, its tokens, the plan, and the memory."""
    running, held, planned = some_requests(rng, rng.randrange(2, 8)), dict[str, int](), dict[str, int]()
    index = rng.randrange(len(running))
    for place, request in enumerate(running):
        request.status = RequestStatus.RUNNING
        request.all_token_ids.extend([2] * rng.randrange(1, 12))
        request.num_computed_tokens = rng.randrange(request.num_tokens)
        request.num_cached_tokens = rng.choice((0, request.num_computed_tokens))
        request.num_preemptions = rng.choice((0, 0, 1, 3))
        num_planned = 0
        if place < index and rng.random() < 0.8:
            num_planned = rng.randrange(1, request.num_tokens - request.num_computed_tokens + 1)
            planned[request.request_id] = num_planned
        held[request.request_id] = cdiv(request.num_computed_tokens + num_planned, block_size)
    own = held[running[index].request_id] * block_size - running[index].num_computed_tokens
    most = max(1, sum(held.values()) * block_size * 4 // 5)
    num_new = own + rng.randrange(1, most + 1)
    needed = cdiv(running[index].num_computed_tokens + num_new, block_size) - held[running[index].request_id]
    num_free = rng.randrange(needed)  # it was refused: that is when room is made
    return running, index, num_new, [rng.choice((0, rng.randrange(1, 20))), planned, num_free, held]
