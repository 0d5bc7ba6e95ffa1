"""Runs phase 3's cases for the graded tests and the judge, call by call, one function per kind of case."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from random import Random
from types import ModuleType
from typing import Any

from mini_vllm.config import Policy
from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import SchedulerOutput
from mini_vllm_labs.grading.plays.stand_ins import SharedBlocksKV
from mini_vllm_labs.grading.plays.strict_queue import StrictQueue
from mini_vllm_labs.grading.plays.support import (
    as_typed,
    fields_of,
    make_request,
    numbers,
    some_ids,
    with_a_past,
    yes_or_no,
)
from mini_vllm_labs.grading.plays.work import left_behind

Seen = dict[str, object]  # plain JSON
Steps = Iterator[str | Seen]  # a call, followed by observations
RANK = r"(?: rank (\S+) (\S+))?"  # priority and arrival time
RUNS = re.compile(rf"(?:(\d+) times )?(\S+) (\d+)(?:\+(\d+))? at (\d+){RANK}(?: on ([\d -]+))?")
WAITS = re.compile(rf"(\S+){RANK}")
POLICIES: dict[int, Policy] = {4: "fcfs", 5: "priority"}
RANKS: tuple[tuple[tuple[int, ...], tuple[float, ...]], ...] = (
    ((0, 1, 2), (0.0, 1.0, 2.0)),
    ((-10, -9, 9, 10), (0.5, 9.0, 10.0, 1e6)),  # sorting them as strings would change their order
    ((999, 1000, 1001), (1.75e9 + 0.25, 1.75e9 + 0.5, 1.75e9 + 0.75)),  # seconds since 1970, as returned by time.time()
    ((0, 1), (5.0, 5.0001, 5.0002)),  # prompts that were sent together
    ((0, 1), (5.0, 5.0 + 2**-30, 5.0 + 2**-21)),  # a billionth of a second apart
    ((0, 1), (1.75e9, 1.75e9 + 2**-22, 1.75e9 + 2**-21)),  # neighbouring floats near the current time
    ((-(10**8), 0, 10**8, 10**8 + 1), (1.75e9, 1.75e9 + 1e-4, 1.75e9 + 5)),
)
NUM_RANDOM = 200
NEEDS = "needs"
VICTIM_CHANGES = ("status", "num_computed_tokens", "num_preemptions", "spec_token_ids")


def rank(request: Request) -> str:
    return f"{request.request_id} (priority {request.priority}, arrived {request.arrival_time!r})"


def ranked(request: Request, priority: str | None, arrival_time: str | None) -> Request:
    request.priority, request.arrival_time = int(priority or 0), float(arrival_time or 0)
    return request


class Queued:
    """A priority queue and all requests that have ever been in it."""

    def __init__(self, phase3: ModuleType) -> None:
        self.queue: Any = phase3.PriorityRequestQueue()
        self.known, self.inside = dict[str, Request](), set[str]()
        self.popped: list[object] = []

    def name(self, request: object) -> object:
        """Return the name of a queued request; describe any other object."""
        if not isinstance(request, Request):
            return f"a {type(request).__name__}"
        name = request.request_id
        if self.known.get(name) is request:
            return name
        return f"another {name}" if name in self.known else f"{name} of another queue"

    def told(self, call: str) -> str:
        """Return a call as text, or an empty string if it is impossible now."""
        what, *given = call.split()
        if what in ("add", "prepend") and given[0] not in self.inside:
            request = ranked(self.known.setdefault(given[0], make_request(given[0], 4)), *given[1:])
            request.status = RequestStatus.PREEMPTED if what == "prepend" else RequestStatus.WAITING
            return f"{what}_request({rank(request)})"
        if what == "remove" and given[0] in self.inside:
            return f"remove_request({given[0]})"
        if what == "pop" and self.inside:
            return "pop_request()"
        if what == "rank" and given[0] in self.known:
            return f"{given[0]}.priority = {given[1]}"
        others = {"another": "another queue is made, and Z (priority -9) added there", "look": "looked at again"}
        return others.get(what, "")

    def make(self, call: str) -> None:
        what, *given = call.split()
        if what in ("add", "prepend"):
            self.inside.add(given[0])
            getattr(self.queue, f"{what}_request")(self.known[given[0]])
        elif what == "remove":
            self.inside.remove(given[0])
            self.queue.remove_request(self.known[given[0]])
        elif what == "pop":
            self.popped.append(self.name(self.queue.pop_request()))
            self.inside.discard(str(self.popped[-1]).removeprefix("another "))
        elif what == "rank":
            self.known[given[0]].priority = int(given[1])
        elif what == "another":  # reveals state that is stored on the class
            type(self.queue)().add_request(make_request("Z", 4, priority=-9))

    def state(self) -> Seen:
        next(iter(self.queue), None)  # an iteration that stops early
        order, length = [self.name(request) for request in self.queue], len(self.queue)
        is_odd = bool(self.queue) != bool(length)
        return {
            "pop_request": self.popped,
            "order": order,
            "length": f"{length}, and bool(queue) is {bool(self.queue)}" if is_odd else int(length),
            "peek_request": self.name(self.queue.peek_request()) if length else None,
        }


def queue(phase3: ModuleType, calls: Sequence[str]) -> Steps:
    """Make calls to a queue; report popped requests, the order, the length and the first request.

    Calls: "add A 3 0.5", "prepend A 3 0.5" (priority, arrival time), "remove A", "pop", "rank A 7" (changes the
    priority), "look", "another"; "pop all" empties the queue. No value is read between calls joined by "; ".
    """
    yield "PriorityRequestQueue()"
    queued = Queued(phase3)
    yield queued.state()
    for call in calls:
        queued.popped = []
        for part in ["pop"] * len(queued.inside) if call == "pop all" else call.split("; "):
            if told := queued.told(part):
                yield told
                queued.make(part)
        yield queued.state()


def queue_leaves(phase3: ModuleType, num_requests: int) -> Seen:
    """Start and end requests; report what they leave behind. A queue may keep a few requests for a while."""
    queue, clock = phase3.PriorityRequestQueue(), count()

    def use(name: str) -> None:
        first, second = (make_request(one, 4, arrival_time=next(clock)) for one in (name, f"{name}, too"))
        for request in (first, second):
            queue.add_request(request)
        queue.pop_request()
        queue.remove_request(second)

    return left_behind(phase3, use, queue, num_requests=num_requests)


def victims(phase3: ModuleType, calls: Sequence[str]) -> Steps:
    """Choose victims: "fcfs: A rank 9 1.0, B rank 0 0.5" chooses between A and B.

    A prefix "7: " seeds the fields that no rule mentions.
    """
    for call in calls:
        *past, policy, told = call.split(": ")
        rng, running = Random(past[0] if past else 0), list[Request]()
        for one in told.split(", "):
            running.append(waiter(one))
            running[-1].status = RequestStatus.RUNNING
            if past:
                with_a_past(rng, running[-1])
        names = [one.request_id for one in running]
        yield f"choose_victim([{', '.join(map(rank, running))}], {policy})"
        chosen = phase3.choose_victim(running, as_typed("fcfs" if policy == "fcfs" else "priority"))
        is_there = any(one is chosen for one in running)
        name = chosen.request_id if is_there else f"not in RUNNING: {getattr(chosen, 'request_id', chosen)!r}"
        after = [one.request_id for one in running]
        yield {"choose_victim": name, "RUNNING afterwards": "as before" if after == names else after}


def waiter(told: str) -> Request:
    match = WAITS.fullmatch(told)
    assert match, told
    return ranked(make_request(match[1], 4), match[2], match[3])


def runners(told: Sequence[str], block_size: int) -> tuple[list[Request], dict[str, list[int]]]:
    """Return running requests and their block tables; the default table holds exactly the computed tokens."""
    running, tables, next_id = list[Request](), dict[str, list[int]](), 1
    for text in told:
        match = RUNS.fullmatch(text)
        assert match, text
        times, name, num_prompt, num_outputs, computed, priority, arrival_time, table = match.groups()
        for one in [f"{name}{number}" for number in range(int(times))] if times else [name]:
            request = make_request(one, int(num_prompt), num_output_tokens=int(num_outputs or 0))
            request.status, request.num_computed_tokens = RequestStatus.RUNNING, int(computed)
            running.append(ranked(request, priority, arrival_time))
            tables[one] = numbers(table) if table else [*range(next_id, next_id + cdiv(int(computed), block_size))]
            next_id = max([next_id - 1, *tables[one]]) + 1
    return running, tables


def preempting(phase3: ModuleType, told: str, waiting: Sequence[str], past: int = 0, drafts: int = 0) -> Steps:
    """Preempt a running request, "A 9+3 at 11 on 1-3"; report the changes.

    `past` seeds the fields that no rule mentions.
    """
    (request,), tables = runners([told], 4)
    name, holds = request.request_id, tables[request.request_id]
    kv, queue = SharedBlocksKV(99, 4, {**tables, "Z": [99]}), StrictQueue([waiter(one) for one in waiting])
    if past:
        with_a_past(Random(past), request)
    request.block_hashes, request.spec_token_ids = [b"of its first block"], [7] * drafts
    before = fields_of(request)
    yield (
        f"preempt({name}, waiting, kv)   {name}: {request.num_computed_tokens} of {request.num_tokens} computed, "
        f"{request.num_output_tokens} generated, preempted {request.num_preemptions} times so far, {drafts} drafts, "
        f"holds {holds}; waiting: {', '.join(waiting) or 'none'}"
    )
    phase3.preempt(request, queue, kv)
    yield {
        "status": request.status.name,
        "computed tokens": int(request.num_computed_tokens),
        "preemptions": int(request.num_preemptions),
        "drafts": [*request.spec_token_ids],
        "WAITING": [one.request_id if one is request or one.request_id != name else "a copy" for one in queue],
        "kv.free": kv.freed,
        "blocks held": kv.block_ids(name),
        "also changed": also_changed(request, before),
    }


def also_changed(request: Request, before: Mapping[str, object]) -> list[str]:
    """Return the fields that changed, except those that a preemption is meant to change."""
    others = (pair for pair in before.items() if pair[0] not in VICTIM_CHANGES)
    return [name for name, value in others if getattr(request, name) != value]


def has_other_drafts(request: Request, before: Mapping[str, object]) -> bool:
    """Return whether a victim still has drafts, or whether a different request's drafts have changed."""
    is_victim = request.status is RequestStatus.PREEMPTED and before["status"] is RequestStatus.RUNNING
    return request.spec_token_ids != ([] if is_victim else before["spec_token_ids"])


class Room:
    """Running requests that lack memory, and the step that is being planned.

    `sizes` may contain `block_size`, `spare` blocks, `reserved` (the memory is full until a request is freed), and
    `past`, which seeds the fields that no rule mentions.
    """

    def __init__(self, phase3: ModuleType, policy: Policy, sizes: Mapping[str, int], told: Sequence[str]) -> None:
        self.block_size = sizes.get("block_size", 4)
        self.preemption = phase3.RecomputePreemption(as_typed(policy))
        # reveals state that is stored on the class
        phase3.RecomputePreemption("priority" if policy == "fcfs" else "fcfs")
        self.running, tables = runners([one for one in told if " at " in one], self.block_size)
        waiting = [waiter(one) for one in told if " at " not in one]
        self.requests = {one.request_id: one for one in (*self.running, *waiting)}
        self.is_by_rank, self.order = policy == "priority", list[str]()
        self.sort()
        self.waiting = StrictQueue(waiting, self.order)
        held = {block_id for table in tables.values() for block_id in table}
        num_blocks = len(held) + sizes.get("spare", 0)
        self.kv = SharedBlocksKV(num_blocks, self.block_size, tables, is_reserved="reserved" in sizes)
        self.plan, rng = SchedulerOutput(10), Random(sizes.get("past", 0))
        for request in self.requests.values():
            request.block_hashes = [b"phase 4's"]
            if "past" in sizes:
                with_a_past(rng, request)

    def sort(self) -> None:
        """Update the waiting queue's order by rank; under `fcfs`, requests have no rank."""
        by_rank = sorted(self.requests.values(), key=lambda one: (one.priority, one.arrival_time, one.request_id))
        self.order[:] = [one.request_id for one in by_rank] if self.is_by_rank else []

    def play(self, call: str) -> Steps:
        what, *given = call.split()
        if what == "step":
            yield from self.step(int(given[0]))
        elif what == "plan":
            planned = {one: int(number) for one, number in zip(given[1::2], given[2::2], strict=True)}
            self.plan = SchedulerOutput(int(given[0]), planned)
        elif what == "moved":
            yield "the memory is another object now, with the same blocks"
            self.kv = SharedBlocksKV(self.kv.num_usable_blocks, self.block_size, self.kv.tables)
        elif what == "now":
            yield from self.change(" ".join(given))
        else:
            yield from self.make_room(self.requests[what], int(given[0]))

    def change(self, told: str) -> Steps:
        """Run a request (running, waiting or new) with different tokens and blocks."""
        (moment,), tables = runners([told], self.block_size)
        name = moment.request_id
        yield f"{name} runs now, {moment.num_computed_tokens} of {moment.num_tokens} computed, and holds {tables[name]}"
        request = self.requests.setdefault(name, moment)
        self.sort()
        request.all_token_ids += [7] * (moment.num_tokens - request.num_tokens)
        request.status, request.num_computed_tokens = moment.status, moment.num_computed_tokens
        if not any(one is request for one in self.running):
            self.running.append(request)
            if any(one is request for one in self.waiting):
                self.waiting.remove_request(request)
        self.kv.tables |= tables
        self.kv.num_usable_blocks = max(self.kv.num_usable_blocks, *tables[name])

    def make_room(self, request: Request, num_new_tokens: int) -> Steps:
        yield f"RUNNING {', '.join(f'{rank(one)} {one.num_computed_tokens}/{one.num_tokens}' for one in self.running)}"
        yield f"WAITING {', '.join(map(rank, self.waiting)) or 'none'}"
        yield f"plan    {self.plan.num_scheduled_tokens}, budget left {self.plan.token_budget}"
        yield f"memory  {self.kv.num_usable_blocks} blocks of {self.block_size} tokens, held: {self.kv.tables}"
        yield f"make_room({request.request_id}, {num_new_tokens})"
        before = {name: fields_of(one) for name, one in self.requests.items()}
        self.plan.scheduled_spec_decode_tokens["another"] = [7]
        self.kv.forget_calls()
        arguments = request, num_new_tokens, self.running, self.waiting, self.plan, self.kv
        answer = yes_or_no(self.preemption.make_room(*arguments))
        has_asked = answer is not True or self.kv.num_calls > len(self.kv.freed)
        everyone = sorted(self.requests.items())
        yield {
            "make_room": answer if has_asked else "True, and kv.allocate_slots was not called",
            "RUNNING": [one.request_id for one in self.running],
            "WAITING": [self.name(one) for one in self.waiting],
            "preempted": [
                f"{one.victim_id} for {one.cause_id}, {one.num_tokens_returned} returned" for one in self.plan.preempted
            ],
            "plan": [f"{name}:{number}" for name, number in self.plan.num_scheduled_tokens.items()],
            "budget left": int(self.plan.token_budget),
            "block tables": {name: self.kv.tables[name] for name in sorted(self.kv.tables)},
            "kv.free": self.kv.freed,
            "requests": [
                f"{name} {one.status.name} {one.num_computed_tokens}/{one.num_tokens}, preempted {one.num_preemptions}x"
                for name, one in everyone
            ],
            "also changed": [
                *(f"{name}.{field}" for name, one in everyone for field in also_changed(one, before[name])),
                *(f"{name}: the drafts" for name, one in everyone if has_other_drafts(one, before[name])),
                *["the plan's drafts"] * (self.plan.scheduled_spec_decode_tokens.get("another") != [7]),
                *["the plan's num_preemptions"] * bool(self.plan.num_preemptions),
            ],
        }

    def name(self, request: Request) -> str:
        own = self.requests.get(request.request_id)
        return request.request_id if own is request else f"copy of {request.request_id}"

    def step(self, budget: int) -> Steps:
        """Allocate slots for a step's running requests, make room if that fails, and admit a request."""
        self.plan = SchedulerOutput(budget)
        for request in tuple(self.running):
            amount = min(request.num_tokens - request.num_computed_tokens, 39)
            if request not in self.running or amount <= 0 or self.plan.token_budget < amount:
                continue
            if self.kv.allocate_slots(request, amount) is None:
                yield from self.make_room(request, amount)
                if request not in self.running:
                    break
            self.plan.num_scheduled_tokens[request.request_id] = amount
            self.plan.token_budget -= amount
        for name, amount in self.plan.num_scheduled_tokens.items():
            advance(self.requests[name], amount)
        if len(self.waiting) and self.kv.num_free_blocks:
            request = self.waiting.pop_request()
            request.admit(0)
            self.running.append(request)
            self.kv.allocate_slots(request, 1)
            advance(request, 1)


def advance(request: Request, amount: int) -> None:
    """Count tokens as computed; append a token once all are computed."""
    request.num_computed_tokens += amount
    if request.num_computed_tokens == request.num_tokens:
        request.all_token_ids.append(7)


def rooms(
    phase3: ModuleType, policy: Policy, sizes: Mapping[str, int], told: Sequence[str], calls: Sequence[str]
) -> Steps:
    """Make room in a simulated memory; report the requests, the plan and the memory.

    The request "A 9+1 at 8 rank 0 2.5 on 1 2" is running, and "W rank 3 0.5" is waiting. Calls: "A 12" makes room for
    12 tokens of A; "plan 4 A 1 B 5" sets the plan, with a remaining budget of 4. The call "step 30" runs a step with a
    budget of 30. The call "now A 13 at 8 on 1 2" runs A with different tokens and blocks; the call "moved" makes a new
    memory.
    """
    yield f"RecomputePreemption({policy}), and another one with the other policy"
    room = Room(phase3, policy, sizes, told)
    for call in calls:
        yield from room.play(call)


def two_objects(phase3: ModuleType, policies: Sequence[Policy]) -> Steps:
    """Make room with two objects; both exist before the first is used."""
    made = [
        Room(phase3, policy, {}, ["A 9 at 4 rank 0 0", "B 5 at 4 rank 2 0", "C 5 at 4 rank 1 0"]) for policy in policies
    ]
    for policy, room in zip(policies, made, strict=True):
        yield f"the object with policy {policy}"
        yield from room.play("A 2")


def rooms_leave(phase3: ModuleType, num_requests: int) -> Seen:
    """Preempt and free requests; report what they leave behind."""
    preemption = phase3.RecomputePreemption("fcfs")

    def use(name: str) -> Request:
        (needing, victim), tables = runners([f"{NEEDS} 9 at 8", "victim 9 at 8"], 4)
        needing.request_id, victim.request_id = f"{name} needs", name
        kv = SharedBlocksKV(4, 4, {needing.request_id: tables[NEEDS], name: tables["victim"]})
        preemption.make_room(needing, 1, [needing, victim], StrictQueue(), SchedulerOutput(10), kv)
        return victim

    return left_behind(phase3, use, preemption, num_requests=num_requests)


def random_case(rng: Random, task: int) -> tuple[Any, ...]:
    """Draw the arguments of a random case for a task, sometimes with many requests."""
    many = rng.random() < 0.05
    priorities, arrivals = rng.choice(RANKS)

    def rank_of() -> str:
        return f"{rng.choice(priorities)} {rng.choice(arrivals)!r}"

    if task == 1:
        names = some_ids(rng, 30 if many else 10)
        kinds = ("add", "add", "add", "prepend", "pop", "remove", "look", "another")
        calls = list[str]()
        for _ in range(rng.randint(4, 60 if many else 20)):
            kind, name = rng.choice(kinds), rng.choice(names)
            more = {"add": f" {name} {rank_of()}", "remove": f" {name}"}
            call = kind + more.get("add" if kind == "prepend" else kind, "")
            calls[-1:] = [f"{calls[-1]}; {call}"] if calls and rng.random() < 0.3 else [*calls[-1:], call]
        changes = [f"rank {name} {rng.choice(priorities)}" for name in rng.sample(names, rng.choice((0, 0, 3)))]
        return ([*calls, *changes, f"remove {rng.choice(names)}", "pop all"],)
    if task == 2:
        calls = []
        for _ in range(rng.randint(1, 3)):
            running = ", ".join(
                f"{name} rank {rank_of()}" for name in some_ids(rng, 120 if many else rng.randint(1, 6))
            )
            calls += [f"{rng.getrandbits(30)}: {policy}: {running}" for policy in ("fcfs", "priority")]
        return (calls,)
    if task == 3:
        name, *waiting = some_ids(rng, rng.randint(1, 4))
        held = " on 1-3" if rng.random() < 0.3 else ""
        told = f"{name} {rng.randint(1, 9)}+{rng.choice((0, 0, 1, 3))} at {rng.randint(1, 12)}{held}"
        return told, waiting, rng.getrandbits(30) + 1, rng.choice((0, 0, 1, 4))
    return _random_room(rng, POLICIES[task], 6 if many else 1, rank_of)


def _random_room(rng: Random, policy: Policy, many: int, rank_of: Callable[[], str]) -> tuple[Any, ...]:
    """Draw running requests in a nearly full memory; some share their first blocks."""
    names = some_ids(rng, rng.randint(2, 8) * many)
    num_running, block_size = rng.randint(1, min(6 * many, len(names))), rng.choice((1, 2, 4))
    told, tables, num_held = list[str](), list[list[int]](), 0
    for name in names[:num_running]:
        num_outputs = rng.choice((0, 0, 1, 3))
        num_prompt = rng.choice((rng.randint(2, 12), 40)) if many > 1 else rng.randint(2, 12)
        num_tokens = num_prompt + num_outputs
        computed = num_tokens - 1 if rng.random() < 0.5 else rng.randint(1, num_tokens - 1)
        if rng.random() < 0.1:  # planned ahead, while a step's tokens are still in flight
            computed = num_tokens + 2
        table = [*(tables[-1] if tables and rng.random() < 0.3 else [])]
        table = table[: rng.randint(0, min(len(table), cdiv(computed, block_size)))]
        num_new = cdiv(computed, block_size) - len(table)
        tables.append([*table, *range(num_held + 1, num_held + num_new + 1)])
        num_held += num_new
        told.append(
            f"{name} {num_prompt}+{num_outputs} at {computed} rank {rank_of()} on {' '.join(map(str, tables[-1]))}"
        )
    told += [f"{name} rank {rank_of()}" for name in names[num_running:]]
    sizes = {"block_size": block_size, "spare": rng.choice((0, 0, 1, 2)), "past": rng.getrandbits(30)}
    return policy, sizes, told, [f"step {rng.randint(5, 30) * many}" for _ in range(3)]
