"""Where a step starts from, how your code is called, and what came out. Nothing here is to be filled in."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType

from course.labtest.expect import explained, lab_failure
from course.labtest.phase1.doubles import MAX_CALLS, BlockCountingKV, CallLog, ScriptedChunks, ScriptedPreemption
from course.labtest.strict_queue import StrictQueue
from course.labtest.support import fields_of
from mini_vllm.core.request import Request
from mini_vllm.core.step import SchedulerOutput

PRIORITIES = (2, 0, 1)
ARRIVALS = (1.5, 0.25, 2.5, 0.75)
DECIDED = ("status", "num_computed_tokens")


@dataclass
class Situation:
    """What a step starts from. The two lists are in the order of service, which neither rank nor arrival follows.

    `hits` are the prefix hits in the first step, `later_hits` those in the steps after it; `hits_after` changes some of
    them as soon as a request has got its slots.
    """

    running: list[Request]
    waiting: list[Request]
    budget: int = 1000
    max_num_seqs: int = 100
    threshold: int = 0
    num_blocks: int = 1000
    block_size: int = 1
    hits: Mapping[str, Sequence[int]] = field(default_factory=dict)
    later_hits: Sequence[Mapping[str, Sequence[int]]] = ()
    hits_after: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    evictions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    not_now: Sequence[str] = ()
    not_admitted: Sequence[str] = ()
    whole_or_not: Sequence[str] = ()
    reserved: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for index, request in enumerate((*self.running, *self.waiting)):
            request.priority = PRIORITIES[index % len(PRIORITIES)]
            request.arrival_time = ARRIVALS[index % len(ARRIVALS)]

    def hits_in_step(self, number: int) -> Mapping[str, Sequence[int]]:
        """Return the prefix hits of step 1, 2 and so on."""
        return self.later_hits[number - 2] if 2 <= number < len(self.later_hits) + 2 else self.hits

    def describe_script(self) -> list[str]:
        """Return the lines about what the doubles will do."""
        lines = [f"script  to make room for {name}, preempt {' '.join(gone)}" for name, gone in self.evictions.items()]
        lines += [f"memory  {name} holds {count} blocks already" for name, count in self.reserved.items()]
        lines += [f"cache   once {name} has its slots, the hits are {found}" for name, found in self.hits_after.items()]
        if self.not_now:
            lines.append(f"chunks  gives 0 tokens to {' '.join(self.not_now)}")
        if self.whole_or_not:
            lines.append(f"chunks  gives {' '.join(self.whole_or_not)} all its tokens or 0")
        if self.not_admitted:
            lines.append(f"chunks  does not admit {' '.join(self.not_admitted)}")
        return lines


def describe(requests: Iterable[Request]) -> str:
    return "[" + ", ".join(f"{r.request_id} {r.num_computed_tokens}/{r.num_tokens}" for r in requests) + "]"


def describe_plan(entries: Iterable[tuple[str, int]]) -> str:
    """Return a plan as `A:3  B:1`, in its order."""
    return "  ".join(f"{name}:{amount}" for name, amount in entries) or "empty"


def read_plan(text: str) -> dict[str, int]:
    """Return the plan that a test expects, written as `describe_plan` writes it."""
    entries = (entry.rpartition(":") for entry in text.split() if ":" in entry)
    return {name: int(amount) for name, _, amount in entries}


class Scene:
    """A situation set up for the code under test: the queues and the doubles around it."""

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        self.number = 1
        self.before: list[str] = []
        everything = (*situation.running, *situation.waiting)
        self.log = CallLog(self.before, max(MAX_CALLS, 20 * len(everything)))
        self.running = situation.running
        self.waiting = StrictQueue(situation.waiting)
        self.requests = {r.request_id: r for r in everything}
        self.kv = BlockCountingKV(
            situation.num_blocks, situation.block_size, self.log, situation.hits, situation.hits_after
        )
        self.kv.hold(situation.running)
        self.kv.num_held |= situation.reserved
        self.chunks = ScriptedChunks(
            self.log,
            situation.threshold,
            not_now=situation.not_now,
            not_admitted=situation.not_admitted,
            whole_or_not=situation.whole_or_not,
        )
        self.preemption = ScriptedPreemption(self.log, situation.evictions)
        self.preemption.lists = (self.running, self.waiting)
        self._look()

    def take_step(self, phase1: ModuleType, rule: str = "") -> SchedulerOutput:
        """Call `schedule_step`. `rule` is what the test is about, for the text of an exception."""
        self._look()
        with explained(self.before, self.log, rule=rule):
            scheduler_output = phase1.schedule_step(
                self.running,
                self.waiting,
                max_num_seqs=self.situation.max_num_seqs,
                max_num_batched_tokens=self.situation.budget,
                kv=self.kv,
                preemption=self.preemption,
                chunks=self.chunks,
            )
        if not isinstance(scheduler_output, SchedulerOutput):
            lab_failure(
                rule="schedule_step returns its plan, a SchedulerOutput, however the step ends.",
                situation=self.before,
                expected="a SchedulerOutput",
                yours=repr(scheduler_output),
                hint="which `return` ends this step, and what follows it?",
            )
        return scheduler_output

    def outcome(self, scheduler_output: SchedulerOutput) -> dict[str, object]:
        return {
            "plan": describe_plan(scheduler_output.num_scheduled_tokens.items()),
            "RUNNING": describe(self.running),
            "WAITING": describe(self.waiting),
            "budget left": scheduler_output.token_budget,
            "statuses": {name: self.requests[name].status.name for name in sorted(self.requests)},
            "preempted": [(p.victim_id, p.cause_id, p.num_tokens_returned) for p in scheduler_output.preempted],
            "calls": self.log.with_effect(),
            "also changed": self._also_changed(scheduler_output),
        }

    def advance(self, scheduler_output: SchedulerOutput) -> None:
        """Count the planned tokens as computed; a request that has caught up gets one token more. Change the hits."""
        for name, amount in scheduler_output.num_scheduled_tokens.items():
            request = self.requests[name]
            request.num_computed_tokens += amount
            if request.num_computed_tokens == request.num_tokens:
                request.all_token_ids.append(7)
        self.number += 1
        self.kv.hits = dict(self.situation.hits_in_step(self.number))
        self.log.clear()

    def admit_from_now_on(self) -> None:
        self.situation.not_admitted = ()
        self.chunks.not_admitted = frozenset()

    def _look(self) -> None:
        """Write down how things stand before your code is called."""
        self.running_before = [r.request_id for r in self.running]
        self.waiting_before = [r.request_id for r in self.waiting]
        self._fields_before = {name: fields_of(request) for name, request in self.requests.items()}
        self.before[:] = [
            f"before  RUNNING {describe(self.running)}  WAITING {describe(self.waiting)}   (A 5/8 = 5 of 8 computed)",
            f"caps    budget={self.situation.budget}  max_num_seqs={self.situation.max_num_seqs}  "
            f"threshold={self.situation.threshold or 'off'}  "
            f"free memory={max(0, self.kv.num_free_blocks)} of {self.kv.num_usable_blocks} blocks of "
            f"{self.kv.block_size}",
        ]
        if ahead := ", ".join(f"{r.request_id} {r.num_tokens_ahead}" for r in self.running if r.num_tokens_ahead):
            self.before.append(f"ahead   tokens that chunks counts beside the known ones: {ahead}")
        if self.kv.hits:
            hits = ", ".join(f"{name} {list(blocks)}" for name, blocks in self.kv.hits.items())
            self.before.append(f"hits    {hits}")
        self.before += self.situation.describe_script()
        self.waiting.cost = 0
        self.chunks.asked_with.clear()
        self.preemption.asked_for.clear()
        self.kv.admitted_early.clear()
        self.kv.served.clear()

    def _also_changed(self, scheduler_output: SchedulerOutput) -> list[str]:
        """Return what your code changed about requests besides status and counter: `A.arrival_time`."""
        counted = Counter(one.victim_id for one in scheduler_output.preempted)
        places = {r.request_id for r in self.running} | set(self.situation.reserved)
        changed = [f"memory of {name}, which waits" for name in sorted(self.kv.num_held) if name not in places]
        for name, request in sorted(self.requests.items()):
            fields = fields_of(request)
            fields["num_preemptions"] = request.num_preemptions - counted[name]
            before = self._fields_before[name]
            changed += [f"{name}.{field}" for field in fields if fields[field] != before[field]]
        return [one for one in changed if one.partition(".")[2] not in DECIDED]
