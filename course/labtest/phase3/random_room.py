"""Random calls of `make_room`, compared with recorded ones. Nothing here is to be filled in."""

import random
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from course.labtest.expect import Told
from course.labtest.phase3.cases import RANKS, waiter
from course.labtest.phase3.queue_harness import rank
from course.labtest.phase3.room_harness import RoomHarness, own_blocks
from course.labtest.recorded import Answers, first_difference
from course.labtest.strict_queue import StrictQueue
from course.labtest.support import as_typed, make_request, some_ids, with_a_past
from mini_vllm.config import Policy
from mini_vllm.core.interfaces import RequestQueue
from mini_vllm.core.request import Request
from mini_vllm.core.step import SchedulerOutput

RULE_OF_CALL = "A random call of make_room does not follow the rules in the handout."
RULE_OF_POP = "pop_request takes the request that is first in the order of service."
HINT_OF_CALL = (
    "take the victims one by one: which request is it, what changes with it, and when is memory asked again? Which "
    "is the first thing that your code does otherwise?"
)
HINT_OF_POP = "this is your queue of task 3.1, after victims were put back into it. Do its tests pass?"


def room_differs(phase3: ModuleType, answers: Answers, policy: Policy, rng: random.Random, many: int) -> str:
    """Let running requests ask for memory over three steps; return the report of the first call that differs."""
    state = rng.getstate()

    def run() -> Iterator[tuple[Mapping[str, object], Told]]:
        rng.setstate(state)
        return three_steps(phase3, policy, **random_room(rng, many))

    return first_difference(answers, run)


def three_steps(
    phase3: ModuleType, policy: Policy, budgets: Sequence[int], waiting: Sequence[Request], **room: Any
) -> Iterator[tuple[Mapping[str, object], Told]]:
    """Yield what each call of `make_room`, and of `pop_request` between the steps, has decided."""
    queue: RequestQueue = phase3.PriorityRequestQueue() if policy == "priority" else StrictQueue()
    for request in waiting:
        queue.add_request(request)
    harness = RoomHarness(**room, queue=queue)
    preemption = phase3.RecomputePreemption(as_typed(policy))
    other_policy: Policy = "priority" if policy == "fcfs" else "fcfs"
    phase3.RecomputePreemption(other_policy)  # state of the class would show
    for budget in budgets:
        harness.step = SchedulerOutput(budget)
        for request in tuple(harness.running):
            amount = min(request.num_tokens - request.num_computed_tokens, 39)
            if request not in harness.running or amount <= 0 or harness.step.token_budget < amount:
                continue
            if harness.kv.allocate_slots(request, amount) is None:
                note = f", policy {policy} (an object for the other policy was made since)"
                harness.make_room(preemption, request, amount, note)
                yield (
                    harness.outcome(),
                    Told(rule=RULE_OF_CALL, situation=harness.before, hint=HINT_OF_CALL, calls=harness.kv.calls),
                )
                if not harness.answer:
                    break
            harness.step.num_scheduled_tokens[request.request_id] = amount
            harness.step.token_budget -= amount
        for name, amount in harness.step.num_scheduled_tokens.items():
            _advance(harness.requests[name], amount)
        if len(harness.running) < len(harness.requests) and harness.kv.num_free_blocks:
            situation = f"WAITING {', '.join(map(rank, harness.waiting))}"
            request = harness.waiting.pop_request()
            yield {"pop_request": request.request_id}, Told(rule=RULE_OF_POP, situation=situation, hint=HINT_OF_POP)
            request.admit(0)
            harness.running.append(request)
            harness.kv.allocate_slots(request, 1)
            _advance(request, 1)


def _advance(request: Request, amount: int) -> None:
    """Count tokens as computed; a request that has caught up gets one token more."""
    request.num_computed_tokens += amount
    if request.num_computed_tokens == request.num_tokens:
        request.all_token_ids.append(7)


def random_room(rng: random.Random, many: int = 1) -> dict[str, Any]:
    """Return running requests in a memory with little room, some of them sharing their first blocks."""
    names = some_ids(rng, rng.randint(2, 8) * many)
    num_running = rng.randint(1, min(6 * many, len(names)))
    block_size, ranks = rng.choice((1, 2, 4)), rng.choice(RANKS)
    running = [_random_runner(rng, name, many) for name in names[:num_running]]
    waiting = [with_a_past(rng, waiter(name)) for name in names[num_running:]]
    for request in (*running, *waiting):
        request.priority, request.arrival_time = rng.choice(ranks[0]), rng.choice(ranks[1])
    tables = own_blocks(running, block_size)
    for table, other in zip(list(tables.values())[1:], tables.values(), strict=False):
        if rng.random() < 0.3:
            num_shared = rng.randint(0, min(len(table), len(other)))
            table[:num_shared] = other[:num_shared]
    held = sorted({block_id for table in tables.values() for block_id in table})
    new_id = {block_id: index for index, block_id in enumerate(held, start=1)}
    tables = {name: [new_id[block_id] for block_id in table] for name, table in tables.items()}
    num_blocks = len(held) + rng.choice((0, 0, 1, 2))
    return {
        "running": running,
        "waiting": waiting,
        "num_blocks": num_blocks,
        "block_size": block_size,
        "tables": tables,
        "budgets": [rng.randint(5, 30) * many for _ in range(3)],
    }


def _random_runner(rng: random.Random, name: str, many: int) -> Request:
    num_output = rng.choice((0, 0, 1, 3))
    num_prompt = rng.choice((rng.randint(2, 12), 40)) if many > 1 else rng.randint(2, 12)
    num_tokens = num_prompt + num_output
    num_computed = num_tokens - 1 if rng.random() < 0.5 else rng.randint(1, num_tokens - 1)
    if rng.random() < 0.1:  # planned ahead: the tokens of a step are still to come
        num_computed = num_tokens + 2
    request = make_request(name, num_prompt, num_computed_tokens=num_computed, num_output_tokens=num_output)
    return with_a_past(rng, request)
