"""Where a step starts from, how your code is called, and what came out. Nothing here is to be filled in."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType

import pytest

from course.labtest.phase1.doubles import BlockCountingKV, CallLog, ScriptedChunks, ScriptedPreemption
from course.labtest.phase1.symptoms import symptom_of_update
from course.labtest.support import compare, explained, make_request, waiting_queue
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.request_queue import FCFSRequestQueue
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.sampling_params import SamplingParams

EOS = 2


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
    whole_or_not: Sequence[str] = ()
    reserved: Mapping[str, int] = field(default_factory=dict)

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
        lines += [f"memory  {name} holds {count} blocks already" for name, count in self.reserved.items()]
        if self.not_now:
            lines.append(f"chunks  gives 0 tokens to {' '.join(self.not_now)}")
        if self.whole_or_not:
            lines.append(f"chunks  gives all it wants or 0 tokens to {' '.join(self.whole_or_not)}")
        if self.not_admitted:
            lines.append(f"chunks  does not admit {' '.join(self.not_admitted)}")
        return lines


def describe(requests: Sequence[Request]) -> str:
    """Return requests as `[A 5/8, B 0/3]`: computed and all tokens of each."""
    return "[" + ", ".join(f"{r.request_id} {r.num_computed_tokens}/{r.num_tokens}" for r in requests) + "]"


class Scene:
    """A situation set up for the code under test: the real queues and the doubles around it."""

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        self.before = situation.describe()
        self.log = CallLog(self.before)
        self.running = situation.running
        self.waiting: FCFSRequestQueue = waiting_queue(situation.waiting)
        self.requests = {r.request_id: r for r in (*situation.running, *situation.waiting)}
        self.kv = BlockCountingKV(situation.num_blocks, situation.block_size, self.log, situation.hits)
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

    def take_step(self, phase1: ModuleType) -> SchedulerOutput:
        """Call `schedule_step`."""
        with explained(self.before, self.log):
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
            pytest.fail(f"schedule_step must return its SchedulerOutput, not {scheduler_output!r}.", False)
        return scheduler_output

    def outcome(self, scheduler_output: SchedulerOutput) -> dict[str, object]:
        """Return everything the step decided."""
        return {
            "plan": describe_plan(scheduler_output.num_scheduled_tokens.items()),
            "RUNNING": describe(self.running),
            "WAITING": describe(list(self.waiting)),
            "budget left": scheduler_output.token_budget,
            "statuses": {name: self.requests[name].status.name for name in sorted(self.requests)},
            "preempted": [(p.victim_id, p.cause_id, p.num_tokens_returned) for p in scheduler_output.preempted],
            "calls": self.log.with_effect(),
        }

    def advance(self, scheduler_output: SchedulerOutput) -> None:
        """Count the planned tokens as computed; who has caught up gets one token more."""
        for name, amount in scheduler_output.num_scheduled_tokens.items():
            request = self.requests[name]
            request.num_computed_tokens += amount
            if request.num_computed_tokens == request.num_tokens:
                request.all_token_ids.append(7)


def describe_plan(entries: Iterable[tuple[str, int]]) -> str:
    """Return a plan as `A:3  B:1`, in its order."""
    return "  ".join(f"{name}:{amount}" for name, amount in entries) or "nobody"


class Update:
    """One call of `update_from_output`: what went in, what came out, and what the memory saw."""

    def __init__(
        self,
        running: list[Request],
        sampled: Mapping[str, list[int]],
        *,
        planned: Sequence[str] = (),
        gone: Sequence[str] = (),
        max_model_len: int = 1000,
    ) -> None:
        self.planned = planned or [r.request_id for r in running]
        self.before = [
            f"step    {' '.join(self.planned)}   RUNNING {' '.join(r.request_id for r in running) or 'nobody'}",
            f"sampled {dict(sampled)}   max_model_len={max_model_len}   EOS is {EOS}",
            *(f"request {_facts(r)}" for r in running),
            *(f"gone    {name} was aborted while the step was computed" for name in gone),
        ]
        self.everybody = list(running)
        self.running = running
        self.requests = {r.request_id: r for r in running}
        self.sampled = {name: list(token_ids) for name, token_ids in sampled.items()}
        self.max_model_len = max_model_len
        self.log = CallLog(self.before)
        self.kept: object = None

    def apply(self, phase1: ModuleType) -> None:
        """Call `update_from_output`."""
        with explained(self.before):
            self.kept = phase1.update_from_output(
                SchedulerOutput(100, dict.fromkeys(self.planned, 1)),
                self.sampled,
                self.requests,
                self.running,
                max_model_len=self.max_model_len,
                kv=BlockCountingKV(10_000, 1, self.log),
            )

    def outcome(self) -> dict[str, object]:
        """Return everything the call decided."""
        kept = self.kept
        return {
            "returned": {name: list(kept[name]) for name in sorted(kept)} if isinstance(kept, Mapping) else kept,
            "RUNNING": [r.request_id for r in self.running],
            "outputs": {r.request_id: r.output_token_ids for r in self.everybody},
            "finished": {r.request_id: r.finish_reason for r in self.everybody if r.is_finished},
            "stop reasons": {r.request_id: r.stop_reason for r in self.everybody if r.stop_reason is not None},
            "freed, in order": [call[len("kv.free(") : -1] for call in self.log],
            "computed tokens": {r.request_id: r.num_computed_tokens for r in self.everybody},
            "in `requests`": sorted(self.requests),
        }

    def unchanging(self) -> dict[str, object]:
        """Return the part of the outcome that the call must leave as it is."""
        return {label: self.outcome()[label] for label in ("computed tokens", "in `requests`")}

    def check(
        self,
        phase1: ModuleType,
        rule: str,
        hint: str,
        *,
        returned: Mapping[str, list[int]],
        running: str,
        finished: Mapping[str, str] | None = None,
        freed: str = "",
        stop_reasons: Mapping[str, int] | None = None,
    ) -> None:
        """Make the call and compare. What a request keeps is appended to its outputs, nothing else is."""
        expected = {
            "returned": dict(returned),
            "RUNNING": running.split(),
            "outputs": {r.request_id: r.output_token_ids + returned.get(r.request_id, []) for r in self.everybody},
            "finished": dict(finished or {}),
            "stop reasons": dict(stop_reasons or {}),
            "freed, in order": freed.split(),
            **self.unchanging(),
        }
        running_before = [r.request_id for r in self.running]
        self.apply(phase1)
        yours = self.outcome()
        better_rule, better_hint = symptom_of_update(running_before, expected, yours)
        compare(better_rule or rule, before=self.before, expected=expected, yours=yours, hint=better_hint or hint)


def _facts(request: Request) -> str:
    params = request.sampling_params
    text = f"{request.request_id}: {request.num_prompt_tokens} prompt + {request.num_output_tokens} output tokens, "
    text += f"max_tokens={params.max_tokens}{', ignores EOS' if params.ignore_eos else ''}"
    return text + (f", stop_token_ids={params.stop_token_ids}" if params.stop_token_ids else "")


def caught_up(
    name: str,
    num_outputs: int = 0,
    *,
    num_prompt: int = 4,
    max_tokens: int = 100,
    stop_token_ids: tuple[int, ...] = (),
    ignore_eos: bool = False,
) -> Request:
    """Return a running request all of whose tokens are computed, as it is when its step has run."""
    params = SamplingParams(max_tokens=max_tokens, stop_token_ids=stop_token_ids, ignore_eos=ignore_eos)
    request = Request(name, list(range(1000, 1000 + num_prompt)), params, eos_token_ids=frozenset({EOS}))
    request.all_token_ids += range(5000, 5000 + num_outputs)
    request.num_computed_tokens = request.num_tokens
    request.status = RequestStatus.RUNNING
    return request


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
        whole_or_not=[name for name in names if rng.random() < 0.15],
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
        request.num_preemptions = 1
    return request


def random_update(rng: random.Random) -> Update:
    """Return an update with stops of every kind, gone requests, and requests that got no token."""
    names = rng.sample("ABCDEFGH", rng.randint(1, 6))
    requests = [
        caught_up(
            name,
            rng.randint(0, 3),
            num_prompt=rng.randint(1, 6),
            max_tokens=rng.randint(4, 7),
            stop_token_ids=rng.choice(((), (), (8, 9), (EOS,))),
            ignore_eos=rng.random() < 0.3,
        )
        for name in names
    ]
    gone = [name for name in names if rng.random() < 0.15]
    sampled = {name: rng.choices((EOS, 8, 11, 12, 13), k=rng.randint(0, 3)) for name in names if rng.random() < 0.85}
    return Update(
        [r for r in requests if r.request_id not in gone],
        dict(rng.sample(sorted(sampled.items()), len(sampled))),
        planned=rng.sample(names, len(names)),
        gone=gone,
        max_model_len=rng.choice((8, 10, 1000)),
    )
