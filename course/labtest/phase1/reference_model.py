"""A slow scheduler on plain names and numbers. The random tests compare its steps with yours.

It has no `Request` and no queue, only two lists of names and three numbers per name.
"""

from dataclasses import dataclass

from course.labtest.phase1.situations import Situation, describe_plan
from course.labtest.phase1.updates import EOS, Update


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
        self.number = 1

    def step(self) -> None:
        """Plan one step."""
        self.calls, self.plan, self.preempted = [], [], []
        self.budget = self.given.budget
        admitting = True
        for name in list(self.running):
            if self.budget > 0 and name in self.running:
                verdict = self._serve(name)
                admitting = admitting and verdict == "served"
                if verdict == "preempted":
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
                f"preemption.make_room({name}, {amount}) -> {served} (preempted: {' '.join(victims) or 'none'})"
            )
            if not served:
                return "preempted" if name in victims else "refused"
            self._take(name, amount, self.of[name].num_computed, even_if_full=True)
        self.plan.append((name, amount))
        self.budget -= amount
        return "served" if memory != "None" else "served after preemption"

    def _admit(self, name: str) -> bool:
        hits = list(self.given.hits_in_step(self.number).get(name, ()))
        num_computed = len(hits) * self.given.block_size
        amount = self._grant(name, num_computed)
        if amount == 0 or name in self.given.not_admitted:
            return False
        memory = self._take(name, amount, num_computed, len(hits))
        options = f", hit_blocks={hits}" if hits else ""
        self.calls.append(f"kv.allocate_slots({name}, {amount}{options}) -> {memory}")
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
        return 0 if name in self.given.whole_or_not and min(caps) < caps[0] else min(caps)

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
        """Count the planned tokens as computed; a request that has caught up gets one token more."""
        for name, amount in self.plan:
            plain = self.of[name]
            plain.num_computed += amount
            plain.num_tokens += plain.num_computed == plain.num_tokens
        self.number += 1

    def outcome(self) -> dict[str, object]:
        """Return everything the step decided, in the form of `Scene.outcome`."""
        return {
            "plan": describe_plan(self.plan),
            "RUNNING": self._describe(self.running),
            "WAITING": self._describe(self.waiting),
            "budget left": self.budget,
            "statuses": {name: self.of[name].status for name in sorted(self.of)},
            "preempted": self.preempted,
            "calls": self.calls,
            "also changed": [],
        }

    def _describe(self, names: list[str]) -> str:
        return (
            "[" + ", ".join(f"{name} {self.of[name].num_computed}/{self.of[name].num_tokens}" for name in names) + "]"
        )


def plain_update(update: Update) -> dict[str, object]:
    """Return what `update_from_output` must do, before it is called."""
    alive = {r.request_id: r for r in update.running}
    outputs = {r.request_id: r.output_token_ids for r in update.all_requests}
    returned: dict[str, list[int]] = {}
    finished: dict[str, str] = {}
    stop_reasons: dict[str, int] = {}
    freed: list[str] = []
    for name in update.planned:
        if name not in alive:
            continue
        params, prompt = alive[name].sampling_params, alive[name].num_prompt_tokens
        for token_id in update.sampled.get(name, []):
            if name in finished:
                break
            outputs[name].append(token_id)
            returned.setdefault(name, []).append(token_id)
            if token_id == EOS and not params.ignore_eos:
                finished[name] = "stop"
            elif token_id in params.stop_token_ids:
                finished[name], stop_reasons[name] = "stop", token_id
            elif len(outputs[name]) == params.max_tokens or prompt + len(outputs[name]) >= update.max_model_len:
                finished[name] = "length"
        if name in finished:
            freed.append(name)
    return {
        "returned": {name: returned[name] for name in sorted(returned)},
        "RUNNING": [r.request_id for r in update.running if r.request_id not in finished],
        "outputs": outputs,
        "finished": finished,
        "stop reasons": stop_reasons,
        "freed, in order": freed,
        "also changed": [],
    }
