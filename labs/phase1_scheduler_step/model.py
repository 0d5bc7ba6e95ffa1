"""A slow scheduler on plain names and numbers, and random situations for it and for your code.

It knows no `Request` and no queue: only who runs, who waits, and three numbers per name. The tests
let it and your functions take the same steps and compare everything.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from labs.phase1_scheduler_step.doubles import BlockCountingKV, CallLog, ScriptedChunks, ScriptedPreemption
from labs.support import make_request, waiting_queue
from mini_vllm.request import Request, RequestStatus
from mini_vllm.request_queue import FCFSRequestQueue


@dataclass
class Situation:
    """What a step starts from. The two lists are in service order."""

    running: list[Request]
    waiting: list[Request]
    budget: int = 1000
    max_num_seqs: int = 100
    threshold: int = 0
    num_blocks: int = 1000
    block_size: int = 1
    hits: Mapping[str, Sequence[int]] = field(default_factory=dict)
    evictions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    not_now: Sequence[str] = ()
    not_admitted: Sequence[str] = ()

    def describe(self) -> list[str]:
        """Return the lines that tell a learner where the step started."""
        lines = [
            f"before  RUNNING {describe(self.running)}  WAITING {describe(self.waiting)}   (A 5/8 = 5 of 8 computed)",
            f"caps    budget={self.budget}  max_num_seqs={self.max_num_seqs}  threshold={self.threshold or 'off'}  "
            f"KV memory={self.num_blocks} blocks of {self.block_size}",
        ]
        if self.hits:
            lines.append("hits    " + ", ".join(f"{name}: {len(blocks)} blocks" for name, blocks in self.hits.items()))
        lines += [f"script  for {name} these give way: {' '.join(gone)}" for name, gone in self.evictions.items()]
        if self.not_now:
            lines.append(f"chunks  gives 0 tokens to {' '.join(self.not_now)}")
        if self.not_admitted:
            lines.append(f"chunks  does not admit {' '.join(self.not_admitted)}")
        return lines


def describe(requests: Sequence[Request]) -> str:
    """Return requests as `[A 5/8, B 0/3]`: computed and all tokens of each."""
    return "[" + ", ".join(f"{r.request_id} {r.num_computed_tokens}/{r.num_tokens}" for r in requests) + "]"


class Scene:
    """A situation set up for the code under test: the real queues and the doubles around it."""

    def __init__(self, situation: Situation) -> None:
        self.before = situation.describe()
        self.log = CallLog()
        self.running = situation.running
        self.waiting: FCFSRequestQueue = waiting_queue(situation.waiting)
        self.requests = {r.request_id: r for r in (*situation.running, *situation.waiting)}
        self.kv = BlockCountingKV(situation.num_blocks, situation.block_size, self.log, situation.hits)
        self.kv.hold(situation.running)
        self.chunks = ScriptedChunks(
            self.log, situation.threshold, not_now=situation.not_now, not_admitted=situation.not_admitted
        )
        self.preemption = ScriptedPreemption(self.log, situation.evictions)


@dataclass
class PlainRequest:
    """Three numbers and a status by name."""

    num_tokens: int
    num_computed: int
    num_blocks: int
    status: str


class PlainScheduler:
    """The rules of the step, one after the other, on names."""

    def __init__(self, situation: Situation) -> None:
        self.given = situation
        self.running = [r.request_id for r in situation.running]
        self.waiting = [r.request_id for r in situation.waiting]
        self.of = {
            r.request_id: PlainRequest(
                r.num_tokens,
                r.num_computed_tokens,
                self._blocks_for(r.num_computed_tokens),
                r.status.name,
            )
            for r in (*situation.running, *situation.waiting)
        }
        self.num_free = situation.num_blocks - sum(plain.num_blocks for plain in self.of.values())
        self.calls: list[str] = []
        self.plan: list[tuple[str, int]] = []
        self.preempted: list[tuple[str, str, int]] = []
        self.budget = 0

    def step(self) -> None:
        """Plan one step."""
        self.calls, self.plan, self.preempted = [], [], []
        self.budget = self.given.budget
        admitting = True
        for name in list(self.running):
            if self.budget > 0 and name in self.running:
                verdict = self._serve(name)
                admitting = admitting and verdict == "served"
                if verdict == "gone":
                    break
        while admitting and self.waiting and self.budget > 0 and len(self.running) < self.given.max_num_seqs:
            admitting = self._admit(self.waiting[0])

    def _serve(self, name: str) -> str:
        amount = self._grant(name, self.of[name].num_computed)
        if amount == 0:
            return "served"
        memory = self._take(name, amount, self.of[name].num_computed)
        self.calls.append(f"kv.allocate_slots({name}, {amount}) -> {memory}")
        if memory == "None":
            victims = [victim for victim in self.given.evictions.get(name, ()) if victim in self.running]
            if name in victims:
                victims = victims[: victims.index(name) + 1]
            for victim in victims:
                self._evict(victim, name)
            served = bool(victims) and name not in victims
            self.calls.append(
                f"preemption.make_room({name}, {amount}) -> {served} (evicted: {' '.join(victims) or 'nobody'})"
            )
            if not served:
                return "gone" if name in victims else "refused"
            self._take(name, amount, self.of[name].num_computed, even_if_full=True)
        self.plan.append((name, amount))
        self.budget -= amount
        return "served" if memory != "None" else "served by others"

    def _admit(self, name: str) -> bool:
        hits = list(self.given.hits.get(name, ()))
        num_computed = len(hits) * self.given.block_size
        amount = self._grant(name, num_computed)
        if amount == 0 or name in self.given.not_admitted:
            return False
        memory = self._take(name, amount, num_computed, len(hits))
        told = f", hit_blocks={hits}" if hits else ""
        self.calls.append(f"kv.allocate_slots({name}, {amount}{told}) -> {memory}")
        if memory == "None":
            return False
        self.running.append(self.waiting.pop(0))
        self.of[name].status = "RUNNING"
        self.of[name].num_computed = num_computed
        self.plan.append((name, amount))
        self.budget -= amount
        return True

    def _grant(self, name: str, num_computed: int) -> int:
        if name in self.given.not_now:
            return 0
        caps = [self.of[name].num_tokens - num_computed, self.budget]
        if self.given.threshold:
            caps.append(self.given.threshold)
        return min(caps)

    def _take(self, name: str, amount: int, num_computed: int, num_hits: int = 0, even_if_full: bool = False) -> str:
        held = num_hits or self.of[name].num_blocks
        needed = max(0, self._blocks_for(num_computed + amount) - held)
        if needed > max(0, self.num_free) and not even_if_full:
            return "None"
        self.of[name].num_blocks = held + needed
        self.num_free -= needed
        return "[...]" if needed else "[]"

    def _evict(self, victim: str, cause: str) -> None:
        amount = dict(self.plan).get(victim, 0)
        self.plan = [entry for entry in self.plan if entry[0] != victim]
        self.budget += amount
        self.preempted.append((victim, cause, amount))
        self.running.remove(victim)
        self.waiting.insert(0, victim)
        plain = self.of[victim]
        self.num_free += plain.num_blocks
        plain.num_blocks, plain.num_computed, plain.status = 0, 0, "PREEMPTED"

    def _blocks_for(self, num_tokens: int) -> int:
        return (num_tokens + self.given.block_size - 1) // self.given.block_size

    def advance(self) -> None:
        """Count the planned tokens as computed; who has caught up has one token more."""
        for name, amount in self.plan:
            plain = self.of[name]
            plain.num_computed += amount
            plain.num_tokens += plain.num_computed == plain.num_tokens


def random_situation(rng: random.Random, *, anybody_waits: bool = True) -> Situation:
    """Return a small situation with fresh, half computed and resumed requests, and memory that is short."""
    names = rng.sample("ABCDEFGH", rng.randint(1, 7))
    num_running = rng.randint(0, len(names)) if anybody_waits else len(names)
    block_size = rng.choice((1, 2, 4))
    running = [_running_request(rng, name) for name in names[:num_running]]
    waiting = [_waiting_request(rng, name) for name in names[num_running:]]
    num_held = sum(-(-r.num_computed_tokens // block_size) for r in running)
    hits = {
        r.request_id: [50 + i for i in range(rng.randint(1, (r.num_tokens - 1) // block_size))]
        for r in waiting
        if r.num_tokens > block_size and rng.random() < 0.4
    }
    evictions = {
        r.request_id: rng.sample(names[:num_running], rng.randint(1, min(3, num_running)))
        for r in running
        if rng.random() < 0.5
    }
    return Situation(
        running,
        waiting,
        budget=rng.choice((1, 4, 8, 12, 20, 40)),
        max_num_seqs=rng.randint(max(1, num_running), num_running + 4),
        threshold=rng.choice((0, 0, 2, 5)),
        num_blocks=num_held + rng.choice((0, 1, 2, 4, 8, 30)),
        block_size=block_size,
        hits=hits,
        evictions=evictions,
        not_now=[name for name in names if rng.random() < 0.07],
        not_admitted=[r.request_id for r in waiting if rng.random() < 0.07],
    )


def _running_request(rng: random.Random, name: str) -> Request:
    num_output = rng.choice((0, 0, 1, 3))
    num_prompt = rng.randint(2, 12)
    num_tokens = num_prompt + num_output
    num_computed = num_tokens - 1 if rng.random() < 0.4 else rng.randint(1, num_tokens - 1)
    return make_request(name, num_prompt, num_computed_tokens=num_computed, num_output_tokens=num_output)


def _waiting_request(rng: random.Random, name: str) -> Request:
    num_output = rng.choice((0, 0, 0, 2))
    request = make_request(name, rng.randint(1, 12), num_output_tokens=num_output)
    if num_output:
        request.status = RequestStatus.PREEMPTED
    return request
