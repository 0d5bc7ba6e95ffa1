"""Runs phase 1's cases for the graded tests and the judge, step by step, one function per kind of case.

"A 5/8+3" describes a request with 5 computed, 8 prompt and 3 output tokens. More words may follow; `TOLD` lists them.
"""

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from random import Random
from types import ModuleType
from typing import Any

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import Preempted, SchedulerOutput
from mini_vllm.sampling_params import SamplingParams
from mini_vllm_labs.grading.plays.plain import number, numbers
from mini_vllm_labs.grading.plays.scheduling_stand_ins import (
    MAX_CALLS,
    CallLog,
    CountingMemory,
    ScriptedChunks,
    ScriptedPreemption,
)
from mini_vllm_labs.grading.plays.strict_queue import StrictQueue
from mini_vllm_labs.grading.plays.support import fields_of, some_ids, with_a_past, with_unread_fields
from mini_vllm_labs.grading.plays.work import LONG, ROOM, SHORT, left_behind, work_of

Seen = dict[str, object]  # plain JSON
Steps = Iterator[str | Seen]  # lines describing a call, followed by observations
Told = Mapping[str, Any]  # a case's settings, keyed by name; the others have their default values
TOLD = re.compile(r"(\S+) (?:(\d+)/)?(\d+)(?:\+(\d+))?( preempted)?(?: max (\d+))?(?: stop ([\d ]+))?( ignores EOS)?")
NUM_RANDOM = 200
EOS = 2
DECIDED = ("status", "num_computed_tokens")
UPDATED = ("all_token_ids", "status", "stop_reason")
PRIORITIES, ARRIVALS = (2, 0, 1), (1.5, 0.25, 2.5, 0.75)  # neither order is the order in which they are served
MAX_LOG, LAST = 40, 10


def clamp(phase1: ModuleType, num_new: int, budget: int, threshold: int) -> Steps:
    yield f"clamp(num_new={num_new}, budget={budget}, threshold={threshold})"
    yield {"clamp": number(phase1.clamp(num_new, budget, threshold))}


def request_of(told: str) -> Request:
    """Parse a text into a request. The request is RUNNING if it has computed tokens; without a slash, all tokens are
    computed."""
    match = TOLD.fullmatch(told)
    assert match, told
    name, computed, num_prompt, num_output, preempted, most, stops, ignores = match.groups()
    stop_ids = tuple(map(int, (stops or "").split()))
    params = SamplingParams(max_tokens=int(most or 100), stop_token_ids=stop_ids, ignore_eos=bool(ignores))
    request = Request(name, list(range(1000, 1000 + int(num_prompt))), params, eos_token_ids=frozenset({EOS}))
    request.all_token_ids += range(5000, 5000 + int(num_output or 0))
    request.num_computed_tokens = request.num_tokens if computed is None else int(computed)
    if request.num_computed_tokens:
        request.status = RequestStatus.RUNNING
    if preempted:
        request.preempt()
    return with_unread_fields(Random(name), request)


def requests_of(told: str) -> list[Request]:
    """Parse a list of requests; "r*300 1/5" describes 300 of them, r0 to r299."""
    requests = list[Request]()
    for one in filter(None, told.split(", ")):
        name, *rest = one.split(" ", 1)
        first, _, count = name.partition("*")
        names = [f"{first}{place}" for place in range(int(count))] if count else [first]
        requests += [request_of(" ".join([name, *rest])) for name in names]
    return requests


def listed(requests: Iterable[Request]) -> list[str]:
    return [f"{r.request_id} {r.num_computed_tokens}/{r.num_tokens}" for r in requests]


def ids_of(requests: Iterable[Request]) -> list[str]:
    return [request.request_id for request in requests]


def with_victims_named(requests: Iterable[Request]) -> str:
    """Return requests as text for the learner; preempted ones are marked."""
    text = (
        f"{one} ({request.status.name})" if request.status is RequestStatus.PREEMPTED else one
        for request in requests
        for one in listed([request])
    )
    return ", ".join(text) or "empty"


def schedule(phase1: ModuleType, told: Told) -> Steps:
    """Run a step, then one more in the same scene for each entry of `then`, which overrides settings.

    Settings: `running`, `waiting`; `budget`, `seats`; `blocks`, `block_size`, `held` (by waiting requests); `hits`, and
    `hits_after` (once a request has its slots). Other settings: `at_most` and `all_or_none` (limits on tokens);
    `not_admitted`; `victims`, keyed by the request that needs room. `past` seeds the fields that requests carry over
    from earlier steps.
    """
    scene = Scene(told)
    for now in ({}, *told.get("then", ())):
        yield from scene.step(phase1, {**told, **now})


class Scene:
    """The requests of a case and the stand-ins around the code under test. The requests and stand-ins persist from step
    to step."""

    def __init__(self, told: Told) -> None:
        self.plans = list[SchedulerOutput]()
        self.running, waiting = requests_of(told.get("running", "")), requests_of(told.get("waiting", ""))
        self.requests = {request.request_id: request for request in (*self.running, *waiting)}
        for request in bringing_along(self.requests.values(), told):
            is_ahead = request.status is RequestStatus.RUNNING and request.num_computed_tokens % 2
            if request.num_output_placeholders and is_ahead:  # that step's tokens are still in flight
                request.num_computed_tokens = request.num_tokens
        self.waiting, self.log = StrictQueue(waiting), CallLog(max(MAX_CALLS, 20 * len(self.requests)))
        num_blocks, block_size, held = told.get("blocks", 1000), told.get("block_size", 1), told.get("held", {})
        self.kv = CountingMemory(num_blocks, block_size, self.log, held, told.get("hits_after", {}))
        for request in self.running:
            self.kv.take(request, 0)
        self.chunks = ScriptedChunks(self.log, self.kv, told.get("at_most", {}), told.get("all_or_none", ()))
        self.preemption = ScriptedPreemption(self.log, told.get("victims", {}), self.running, self.waiting)

    def step(self, phase1: ModuleType, told: Told) -> Steps:
        """Run a step and count its tokens; yield the situation, the calls and the observations."""
        hits = {name: [*range(n, 0, -1)] if isinstance(n, int) else n for name, n in told.get("hits", {}).items()}
        self.kv.hits, self.chunks.not_admitted = hits, told.get("not_admitted", ())
        for calls in (self.log, self.log.amiss, self.kv.served, self.kv.refused, self.chunks.asked_with):
            calls.clear()
        fields = {name: fields_of(request) for name, request in self.requests.items()}
        plans, ran = [plan_of(one) for one in self.plans], ids_of(self.running)
        yield from self.lines(told)
        self.waiting.cost = 0
        try:
            plan = phase1.schedule_step(
                self.running,
                self.waiting,
                max_num_seqs=told.get("seats", 100),
                max_num_batched_tokens=told.get("budget", 1000),
                kv=self.kv,
                preemption=self.preemption,
                chunks=self.chunks,
            )
        finally:
            yield from (f"  {call}" for call in without_the_middle(self.log))
        if not isinstance(plan, SchedulerOutput):
            yield {"never allowed": [f"schedule_step returned {number(plan)}, and no plan"]}
            return
        admitted = {name: asked for name, asked in self.chunks.asked_with.items() if name in ids_of(self.running)}
        yield {
            "never allowed": self.never_allowed(ran, [*admitted], plans, plan, fields),
            "plan": plan_of(plan),
            "RUNNING": listed(self.running),
            "WAITING": listed(self.waiting),
            "budget left": number(plan.token_budget),
            "statuses": [f"{name} {request.status.name}" for name, request in self.requests.items()],
            "preempted": [f"{one.victim_id} for {one.cause_id}, {one.num_tokens_returned}" for one in plan.preempted],
            "calls": self.log.with_effect(),
            "admitted with": admitted,
        }
        self.plans.append(plan)
        for name in plan.num_scheduled_tokens.keys() & self.requests.keys():
            request = self.requests[name]
            request.num_computed_tokens += plan.num_scheduled_tokens[name] or 0
            if request.num_computed_tokens >= request.num_tokens:
                request.all_token_ids.append(7)

    def lines(self, told: Told) -> Iterator[str]:
        """Yield the situation before a step and the stand-ins' decisions."""
        kv, running, waiting = self.kv, with_victims_named(self.running), with_victims_named(self.waiting)
        yield f"RUNNING {running}   WAITING {waiting}   (A 5/8: 5 of its 8 tokens are computed)"
        yield f"budget {told.get('budget', 1000)}, max_num_seqs {told.get('seats', 100)}, free memory " + (
            f"{max(0, kv.num_free_blocks)} of {kv.num_usable_blocks} blocks of {kv.block_size}"
        )
        if ahead := [f"{one.request_id} {one.num_tokens_ahead}" for one in self.running if one.num_tokens_ahead]:
            yield f"tokens that chunks counts beside the known ones: {', '.join(ahead)}"
        for name, text in LINES.items():
            if script := told.get(name):
                pairs = [f"{key} {value}" for key, value in script.items()] if isinstance(script, Mapping) else script
                yield f"{text} {', '.join(pairs)}"
        yield "schedule_step(...)"

    def never_allowed(
        self,
        ran: Sequence[str],
        admitted: Sequence[str],
        plans: Sequence[object],
        plan: SchedulerOutput,
        fields: Mapping[str, Mapping[str, Any]],
    ) -> list[str]:
        """Return violations of rules that hold in every case: those that the stand-ins saw, and other changes."""
        num_uses, places = self.waiting.cost, {name: place for place, name in enumerate(ran)}
        found = [*dict.fromkeys(self.log.amiss)]
        if self.kv.refused and admitted:
            found.append(f"{admitted[0]} is admitted after {self.kv.refused[0]} was refused memory")
        for first, second in pairwise(name for name in dict.fromkeys(self.kv.served) if name in places):
            if places[first] > places[second]:
                found.append(f"memory was asked for {first} before {second}, which stands before it in RUNNING")
        if num_uses > 60 + 20 * len(admitted):
            found.append("the queue is used often, or its requests are gone through")
        if plans != [plan_of(one) for one in self.plans]:
            found.append("the plan of an earlier step is changed")
        found += [f"{name} waits, and holds memory" for name in ids_of(self.waiting) if self.kv.num_held.get(name)]
        num_preempted = Counter(one.victim_id for one in plan.preempted)
        for name, request in self.requests.items():
            due = {**fields[name], "num_preemptions": fields[name]["num_preemptions"] + num_preempted[name]}
            others = (pair for pair in due.items() if pair[0] not in DECIDED)
            found += [f"{name}.{field} is changed" for field, value in others if getattr(request, field) != value]
        return found


LINES = {
    "hits": "the prefix cache finds the blocks",
    "hits_after": "it finds others once a request has got its slots:",
    "held": "blocks held already:",
    "at_most": "chunks gives at most so many tokens:",
    "all_or_none": "chunks gives all tokens or none to",
    "not_admitted": "chunks does not admit",
    "victims": "to make room, these are preempted:",
}


def plan_of(plan: SchedulerOutput) -> list[str]:
    return [f"{name}:{amount}" for name, amount in plan.num_scheduled_tokens.items()]


def without_the_middle(calls: Sequence[str]) -> Sequence[str]:
    left_out = len(calls) - MAX_LOG
    return [*calls[: MAX_LOG - LAST], f"... {left_out} more ...", *calls[-LAST:]] if left_out > 0 else calls


def bringing_along(requests: Iterable[Request], told: Told) -> Iterator[Request]:
    """Set ranks that do not match the order of service; yield each request that gets random fields from earlier
    steps."""
    rng = Random(told.get("past", 0))
    for place, request in enumerate(requests):
        request.priority, request.arrival_time = PRIORITIES[place % 3], ARRIVALS[place % 4]
        if "past" in told:
            yield with_a_past(rng, request)


def update(phase1: ModuleType, told: Told) -> Steps:
    """Update from a step's results; report each request's state.

    Settings: `running`; `waiting` (preempted since then); `planned`, in order; `gone` (planned but since aborted);
    `sampled` tokens; `max_model_len`.
    """
    running, waiting = requests_of(told.get("running", "")), requests_of(told.get("waiting", ""))
    everyone = {request.request_id: request for request in (*running, *waiting)}
    for request in bringing_along(everyone.values(), told):
        request.num_computed_tokens += request.num_output_placeholders
    for request in waiting:
        request.preempt()
    planned, max_model_len = told.get("planned", [*everyone]), told.get("max_model_len", 1000)
    plan = SchedulerOutput(100, dict.fromkeys(planned, 1), [Preempted("Z", "Y", 0)])
    sampled, requests, log = {name: [*ids] for name, ids in told["sampled"].items()}, dict(everyone), CallLog()

    def arguments() -> dict[str, object]:
        of_plan = [*plan.num_scheduled_tokens.items()], plan.token_budget, len(plan.preempted)
        tokens = {name: [*token_ids] for name, token_ids in sampled.items()}
        return {"the plan": of_plan, "`sampled_token_ids`": tokens, "`requests`": [*requests]}

    before, fields = arguments(), {name: fields_of(request) for name, request in everyone.items()}
    yield f"RUNNING {' '.join(ids_of(running)) or 'empty'}   max_model_len {max_model_len}   EOS is {EOS}"
    yield f"the step {' '.join(planned)}   sampled {sampled}"
    yield from (facts_of(request) for request in running)
    yield from (f"{facts_of(request)}; it waits, preempted while its step was under way" for request in waiting)
    yield from (f"{name} was aborted while its step was under way" for name in told.get("gone", ()))
    kv = CountingMemory(10_000, 1, log, {}, {})
    yield "update_from_output(...)"
    kept = phase1.update_from_output(plan, sampled, requests, running, max_model_len=max_model_len, kv=kv)
    after = arguments()
    changed = [name for name in after if after[name] != before[name]]
    for name, request in everyone.items():
        other = (pair for pair in fields[name].items() if pair[0] not in UPDATED)
        changed += [f"{name}.{field}" for field, value in other if getattr(request, field) != value]
    yield {
        "returned": {name: numbers(kept[name]) for name in sorted(kept)} if isinstance(kept, Mapping) else number(kept),
        "RUNNING": ids_of(running),
        "outputs": {name: numbers(request.output_token_ids) for name, request in everyone.items()},
        "finished": {name: request.finish_reason for name, request in everyone.items() if request.is_finished},
        "stop reasons": {
            name: request.stop_reason for name, request in everyone.items() if request.stop_reason is not None
        },
        "freed, in order": [call.removeprefix("kv.free(")[:-1] for call in log],
        "also changed": changed,
    }


def facts_of(request: Request) -> str:
    params = request.sampling_params
    text = f"{request.request_id}: {request.num_prompt_tokens} prompt + {request.num_output_tokens} output tokens, "
    text += f"max_tokens={params.max_tokens}{', ignores EOS' if params.ignore_eos else ''}"
    return text + (f", stop_token_ids={params.stop_token_ids}" if params.stop_token_ids else "")


def work(phase1: ModuleType, num_sampled: int) -> Steps:
    """End a request while few and then while many others wait; report whether the second update does more work.

    The better result of two large sizes is used, because a growing dict or list may occasionally copy itself.
    """

    def work_with(num_waiting: int) -> int:
        told = {
            "running": "A 4",
            "waiting": f"w*{num_waiting} 4",
            "planned": ["A"],
            "sampled": {"A": [EOS] * num_sampled},
        }
        played = update(phase1, told)
        next(step for step in played if step == "update_from_output(...)")
        return work_of(lambda: next(played), str(phase1.__file__))

    few, many = work_with(SHORT), min(work_with(LONG), work_with(LONG + 150))
    yield f"update_from_output for A with {SHORT} and {LONG} other requests: lines run, lists copied: {few} and {many}"
    yield {"does more with many others": many > 2 * few + ROOM}


def leaves(phase1: ModuleType, num_requests: int, what: str) -> Seen:
    """Start and end requests, each in a separate step or update; report what they leave behind."""

    def use(name: str) -> Request:
        name = name.replace(" ", "_")
        if what == "steps":
            scene = Scene({"running": "R 7/8", "waiting": f"{name} 0/4"})
            deque(scene.step(phase1, {"hits": {name: [3, 2]}}), maxlen=0)
            return scene.requests[name]
        request, kv = request_of(f"{name} 4"), CountingMemory(9, 1, CallLog(), {}, {})
        plan, sampled, requests = SchedulerOutput(9, {name: 1}), {name: [EOS]}, {name: request}
        phase1.update_from_output(plan, sampled, requests, [request], max_model_len=100, kv=kv)
        return request

    return left_behind(phase1, use, num_requests=num_requests)


def random_case(rng: Random, task: int) -> tuple[Any, ...]:
    """Draw the arguments of a random case for a task, sometimes with many requests or long ones."""
    if task == 1:
        largest = rng.choice((8, 8, 40, 5000, 20_000, 2**60))
        num_new, budget, threshold = (rng.randrange(-largest // 4, largest) for _ in range(3))
        return num_new, budget, rng.choice((0, abs(threshold), abs(threshold)))
    many, long = rng.choice(((1, 1),) * 30 + ((20, 1), (1, 1000)))
    return (random_update(rng, many) if task == 4 else random_situation(rng, many, long, with_waiting=task == 3),)


def random_situation(rng: Random, many: int, long: int, *, with_waiting: bool) -> dict[str, Any]:
    """Draw a situation with new, partly computed and resumed requests, and scarce memory."""
    names = some_ids(rng, rng.randint(1, 7) if many == 1 else 7 * many)
    num_running = rng.randint(0, len(names)) if with_waiting else len(names)
    block_size, sizes, num_held = rng.choice((1, 2, 4)), dict[str, int](), 0
    running, waiting = list[str](), list[str]()
    for place, name in enumerate(names):
        num_prompt, num_output = rng.randint(2, 12) * long, rng.choice((0, 0, 1, 3))
        sizes[name] = num_prompt + num_output
        told = f"/{num_prompt}" + f"+{num_output}" * bool(num_output)
        if place < num_running:
            computed = rng.choice((sizes[name] - 1, rng.randint(1, sizes[name] - 1)))
            running.append(f"{name} {computed}{told}")
            num_held += cdiv(computed, block_size)
        else:
            waiting.append(f"{name} 0{told}" + " preempted" * bool(num_output or rng.random() < 0.2))

    def hits(of: Sequence[str]) -> dict[str, list[int]]:
        most = {name: min(20, (sizes[name] - 1) // block_size) for name in of if rng.random() < 0.4}
        return {name: rng.sample(range(50, 70), rng.randint(1, num)) for name, num in most.items() if num}

    def some(of: Sequence[str], share: float) -> list[str]:
        return [name for name in of if rng.random() < share]

    runs, waits = names[:num_running], names[num_running:]
    limits = dict.fromkeys(some(names, rng.choice((0, 0.2, 1))), rng.choice((2, 5)) * long)
    return {
        "running": ", ".join(running),
        "waiting": ", ".join(waiting),
        "budget": rng.choice((1, 4, 8, 12, 20, 40)) * many * long,
        "seats": rng.randint(max(1, num_running - 1), num_running + 4 * many),
        "blocks": num_held + rng.choice((0, 1, 2, 4, 8, 30)) * many * long,
        "block_size": block_size,
        "hits": hits(waits),
        "hits_after": {name: {other: [] for other in waits} | hits(waits) for name in some(names[:7], 0.3) if waits},
        "at_most": limits | dict.fromkeys(some(names, 0.07), 0),
        "all_or_none": some(names, 0.15),
        "not_admitted": some(waits, 0.07),
        "victims": {name: rng.sample(runs, rng.randint(1, min(3, num_running))) for name in some(runs, 0.5)},
        "past": rng.randrange(10**6),
        "then": [{"hits": hits(names)} for _ in range(2 * with_waiting)],
    }


def random_update(rng: Random, many: int) -> dict[str, Any]:
    """Draw an update with stops of every kind, requests that no longer exist, and requests without a token."""
    names = some_ids(rng, rng.randint(1, 6) * many)
    gone = [name for name in names if rng.random() < 0.15]
    told = {
        name: f"{name} {rng.randint(1, 6)}+{rng.randint(0, 3)} max {rng.randint(4, 7)}"
        + rng.choice(("", "", " stop 8 9", f" stop {EOS}", " stop 0"))
        + rng.choice(("", "", " ignores EOS"))
        for name in names
        if name not in gone
    }
    waiting = [name for name in told if rng.random() < 0.1]
    tokens = (EOS, 8, 0, 11, 12, 13)  # 0 is a valid token, although it is falsy
    sampled = {name: rng.choices(tokens, k=rng.randint(0, 3)) for name in names if rng.random() < 0.85}
    return {
        "running": ", ".join(told[name] for name in told if name not in waiting),
        "waiting": ", ".join(told[name] for name in waiting),
        "planned": rng.sample(names, len(names)),
        "gone": gone,
        "sampled": dict(rng.sample(sorted(sampled.items()), len(sampled))),  # runners do not guarantee any order
        "max_model_len": rng.choice((8, 10, 1000)),
        "past": rng.randrange(10**6),
    }
