"""Questions to phase 3: its queue, and which requests are preempted."""

from random import Random

from classroom.judge.question import MAX_CASES, JudgeQuestion
from classroom.judge.script import Script
from classroom.worker.doubles import Memory
from mini_vllm.config import Policy
from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.request_queue import FCFSRequestQueue
from mini_vllm.core.step import SchedulerOutput


def some_requests(rng: Random, num_requests: int) -> list[Request]:
    """Requests with few priorities and few arrival times, so that there are ties."""
    names = rng.sample([f"r{number}" for number in range(30)], num_requests)
    return [Request(name, [1], priority=rng.randrange(-1, 3), arrival_time=float(rng.randrange(4))) for name in names]


def priority_queue_operations(rng: Random) -> JudgeQuestion:
    """Requests that are added, prepended, peeked, popped and removed."""
    script, outside = Script(3), some_requests(rng, 10)
    queue = script.new("PriorityRequestQueue")
    for _ in range(MAX_CASES):
        inside = list(queue)
        match rng.choice(("add", "add", "prepend", "peek", "pop", "remove")):
            case "add" | "prepend" as name if outside:
                request = outside.pop(rng.randrange(len(outside)))
                (queue.add_request if name == "add" else queue.prepend_request)(request)
            case "remove" if inside:
                outside.append(rng.choice(inside))
                queue.remove_request(outside[-1])
            case "peek" if inside:
                queue.peek_request()
            case "pop" if inside:
                outside.append(queue.pop_request())
    return script.question()


def victim_cases(rng: Random) -> JudgeQuestion:
    """Running lists of some requests under both policies."""
    script = Script(3)
    for _ in range(12):
        policy = rng.choice(("fcfs", "priority", "priority"))
        script.functions.choose_victim(some_requests(rng, rng.randrange(1, 7)), policy)
    return script.question()


def rooms_fcfs(rng: Random) -> JudgeQuestion:
    """Running requests of which several must be preempted, first come first served."""
    return rooms(rng, "fcfs")


def rooms_by_priority(rng: Random) -> JudgeQuestion:
    """Running requests of which several must be preempted, most of them planned already."""
    return rooms(rng, "priority")


def rooms(rng: Random, policy: Policy) -> JudgeQuestion:
    """Rooms for one engine among others of the same process."""
    script, block_size = Script(3), rng.choice((1, 2, 3, 4))
    script.new("RecomputePreemption", "fcfs" if policy == "priority" else "priority")
    preemption = script.new("RecomputePreemption", policy)
    script.new("RecomputePreemption", "fcfs" if policy == "priority" else "priority")
    for _ in range(12):
        preemption.make_room(*room(rng, block_size))
    return script.question()


def room(rng: Random, block_size: int) -> tuple[Request, int, list[Request], FCFSRequestQueue, SchedulerOutput, Memory]:
    """Return a request that needs memory, its tokens, all running requests, the waiting ones, the plan, the memory."""
    first, *others = some_requests(rng, rng.randrange(3, 9))
    running, planned, tables = others, dict[str, int](), dict[str, list[int]]()
    waiting = FCFSRequestQueue()
    waiting.add_request(first)
    index, ids = rng.randrange(len(running)), iter(rng.sample(range(1, 200), 199))
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
        table = [next(ids) for _ in range(cdiv(request.num_computed_tokens + num_planned, block_size))]
        if tables and rng.random() < 0.3:  # a shared prefix: preempting one of both frees less than it holds
            shared = rng.choice(list(tables.values()))
            table[: min(len(shared), 2)] = shared[: min(len(table), 2)]
        tables[request.request_id] = table
    request = running[index]
    held = len(tables[request.request_id])
    own = held * block_size - request.num_computed_tokens
    most = max(1, len({block_id for table in tables.values() for block_id in table}) * block_size * 4 // 5)
    num_new = own + rng.randrange(1, most + 1)
    num_needed = cdiv(request.num_computed_tokens + num_new, block_size) - held
    free = [next(ids) for _ in range(rng.randrange(num_needed))]  # it was refused: that is when room is made
    plan = SchedulerOutput(rng.choice((0, rng.randrange(1, 20))), planned)
    return request, num_new, running, waiting, plan, Memory(block_size, free, tables)
