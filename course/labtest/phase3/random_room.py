"""Random calls of `make_room` beside a slow model of it. Nothing here is to be filled in."""

import random
from types import ModuleType

from course.labtest.expect import difference_report
from course.labtest.phase3.cases import waiter
from course.labtest.phase3.queue_harness import rank
from course.labtest.phase3.reference_model import PlainRoom, RankedRequest
from course.labtest.phase3.room_harness import RoomHarness, own_blocks
from course.labtest.strict_queue import StrictQueue
from course.labtest.support import make_request
from mini_vllm.config import Policy
from mini_vllm.core.interfaces import RequestQueue
from mini_vllm.core.request import Request
from mini_vllm.core.step import SchedulerOutput


def room_differs(phase3: ModuleType, policy: Policy, rng: random.Random) -> str:
    """Let running requests ask for memory over three steps; return the report of the first call that differs."""
    harness, model = _random_room(phase3, policy, rng)
    preemption = phase3.RecomputePreemption(policy)
    other_policy: Policy = "priority" if policy == "fcfs" else "fcfs"
    phase3.RecomputePreemption(other_policy)
    for _ in range(3):
        harness.step = SchedulerOutput(rng.randint(5, 30))
        model.plan, model.budget, model.preempted = [], harness.step.token_budget, []
        for request in tuple(harness.running):
            name, amount = request.request_id, min(request.num_tokens - request.num_computed_tokens, 9)
            if name not in model.running or amount == 0 or model.budget < amount:
                continue
            if not model.take(name, amount):
                report, served = _one_call_differs(harness, model, preemption, request, amount)
                if report:
                    return report
                if not served:
                    break
            else:
                harness.kv.allocate_slots(request, amount)
            model.plan.append((name, amount))
            model.budget -= amount
            harness.step.num_scheduled_tokens[name] = amount
            harness.step.token_budget -= amount
        for name, amount in model.plan:
            _advance(harness.requests[name], amount)
            model.advance(name, amount)
        if report := _admission_differs(harness, model):
            return report
    return ""


def _one_call_differs(
    harness: RoomHarness, model: PlainRoom, preemption: object, request: Request, amount: int
) -> tuple[str, bool]:
    model.freed.clear()
    note = f", policy {model.policy} (an object for the other policy was made since)"
    answer = harness.make_room(preemption, request, amount, note)
    served = model.make_room(request.request_id, amount)
    yours, expected = harness.outcome(answer), model.outcome(served)
    if yours == expected:
        return "", served
    return difference_report(
        yours,
        expected,
        rule="A random call of make_room does not follow the rules in the handout.",
        situation=list(harness.before),
        hint="which request is the first victim, and what has changed before memory is asked again?",
        calls=harness.kv.calls,
    ), served


def _admission_differs(harness: RoomHarness, model: PlainRoom) -> str:
    """Admit the first waiting request if memory has room for a part of it; report if the queue returns another."""
    if model.waiting and model.take(model.waiting[0], 1):
        situation = f"WAITING {', '.join(map(rank, harness.waiting))}"
        request = harness.waiting.pop_request()
        if request.request_id != model.waiting[0]:
            return difference_report(
                {"pop_request": request.request_id},
                {"pop_request": model.waiting[0]},
                rule="pop_request takes the request that is first in the order of service.",
                situation=situation,
                hint="this is your queue of task 3.1, after victims were put back into it. Do its tests pass?",
            )
        model.admit(request.request_id)
        request.admit(0)
        harness.running.append(request)
        harness.kv.allocate_slots(request, 1)
        _advance(request, 1)
        model.advance(request.request_id, 1)
    return ""


def _advance(request: Request, amount: int) -> None:
    """Count tokens as computed; a request that has caught up gets one token more."""
    request.num_computed_tokens += amount
    if request.num_computed_tokens == request.num_tokens:
        request.all_token_ids.append(7)


def _random_room(phase3: ModuleType, policy: Policy, rng: random.Random) -> tuple[RoomHarness, PlainRoom]:
    """Return running requests in a memory with little room, some of them sharing their first blocks."""
    names = rng.sample("ABCDEFGH", rng.randint(2, 8))
    num_running = rng.randint(1, min(6, len(names)))
    block_size = rng.choice((1, 2, 4))
    running = [_random_runner(rng, name) for name in names[:num_running]]
    waiting = [waiter(name, rng.randint(0, 2), rng.choice((0.0, 1.5))) for name in names[num_running:]]
    tables = own_blocks(running, block_size)
    for table, other in zip(list(tables.values())[1:], tables.values(), strict=False):
        if rng.random() < 0.3:
            num_shared = rng.randint(0, min(len(table), len(other)))
            table[:num_shared] = other[:num_shared]
    held = sorted({block_id for table in tables.values() for block_id in table})
    new_id = {block_id: index for index, block_id in enumerate(held, start=1)}
    tables = {name: [new_id[block_id] for block_id in table] for name, table in tables.items()}
    num_blocks = len(held) + rng.choice((0, 0, 1, 2))
    queue: RequestQueue = StrictQueue()
    if policy == "priority":
        queue = phase3.PriorityRequestQueue()
    for request in waiting:
        queue.add_request(request)
    harness = RoomHarness(running, num_blocks, block_size=block_size, tables=tables, queue=queue)
    model = PlainRoom(
        policy,
        block_size,
        num_blocks,
        {
            name: RankedRequest(
                r.priority, r.arrival_time, r.num_tokens, r.num_computed_tokens, r.status.name, r.num_preemptions
            )
            for name, r in harness.requests.items()
        },
        [r.request_id for r in running],
        [r.request_id for r in waiting],
        {name: list(table) for name, table in tables.items()},
    )
    if policy == "priority":
        model.waiting.sort(key=lambda name: (model.requests[name].priority, model.requests[name].arrival_time, name))
    return harness, model


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
        arrival_time=rng.choice((0.0, 1.25, 1.75)),
    )
    request.num_preemptions = rng.choice((0, 0, 2))
    return request
