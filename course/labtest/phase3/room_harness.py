"""A full memory and running requests for your `make_room`. Nothing here is to be filled in."""

from collections.abc import Mapping, Sequence
from typing import Any

from course.labtest.expect import BESIDE, alone, expect_equal, explained
from course.labtest.phase3.doubles import SharedBlocksKV
from course.labtest.phase3.queue_harness import rank
from course.labtest.strict_queue import StrictQueue
from course.labtest.support import fields_of
from mini_vllm.core.interfaces import RequestQueue
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import SchedulerOutput

ASKS_MEMORY = (
    "Memory is asked by allocate_slots, again after each victim. It alone knows whether there is room, and it hands "
    "out the slots. Your code did not ask the memory that this call was given.",
    "which memory tells your code whether there is room, and what does the request hold when make_room returns True?",
)
LABELS = {"budget_left": "budget left", "block_tables": "block tables"}
VICTIM_CHANGES = ("status", "num_computed_tokens", "num_preemptions", "spec_token_ids")


class RoomHarness:
    """Running requests that are short of memory. By default each holds its own blocks, in order."""

    def __init__(
        self,
        running: Sequence[Request],
        num_blocks: int,
        *,
        block_size: int = 4,
        tables: Mapping[str, Sequence[int]] | None = None,
        waiting: Sequence[Request] = (),
        queue: RequestQueue | None = None,
        plan: Mapping[str, int] | None = None,
        budget: int = 10,
        kv: SharedBlocksKV | None = None,
    ) -> None:
        self.running = list(running)
        self.waiting: RequestQueue = StrictQueue(waiting) if queue is None else queue
        self.requests = {r.request_id: r for r in (*self.running, *self.waiting)}
        if tables is None:
            tables = own_blocks(running, block_size)
        self.kv = kv or SharedBlocksKV(num_blocks, block_size, tables)
        self.step = SchedulerOutput(budget, dict(plan or {}))
        self.before: list[str] = []
        self.answer: object = None

    def make_room(self, preemption: object, request: Request, num_new_tokens: int, note: str = "") -> None:
        running = [f"{rank(r)} {r.num_computed_tokens}/{r.num_tokens}" for r in self.running]
        self.before[:] = [
            f"RUNNING {', '.join(running) or 'empty'}",
            f"WAITING {', '.join(map(rank, self.waiting)) or 'empty'}",
            f"plan    {self.step.num_scheduled_tokens}, budget left {self.step.token_budget}",
            self.kv.describe(),
            f"call    make_room({request.request_id}, {num_new_tokens}){note}",
        ]
        self._fields_before = {name: fields_of(one) for name, one in self.requests.items()}
        self.kv.calls.clear()
        with explained(self.before, self.kv.calls):
            self.answer = preemption.make_room(  # type: ignore[attr-defined]
                request, num_new_tokens, self.running, self.waiting, self.step, self.kv
            )

    def outcome(self) -> dict[str, object]:
        return {
            "make_room": self.answer,
            "RUNNING": [r.request_id for r in self.running],
            "WAITING": [self._name(r) for r in self.waiting],
            "plan": list(self.step.num_scheduled_tokens.items()),
            "budget left": self.step.token_budget,
            "preempted": [(p.victim_id, p.cause_id, p.num_tokens_returned) for p in self.step.preempted],
            "block tables": {name: self.kv.tables[name] for name in sorted(self.kv.tables)},
            "freed, in order": self.kv.frees(),
            "requests": [
                f"{name} {r.status.name} {r.num_computed_tokens}/{r.num_tokens}, preempted {r.num_preemptions}x"
                for name, r in sorted(self.requests.items())
            ],
            "also changed": [
                f"{name}.{field}"
                for name, r in sorted(self.requests.items())
                for field, value in self._fields_before[name].items()
                if value != getattr(r, field) and field not in VICTIM_CHANGES
            ]
            + [f"{name}: the drafts" for name, r in sorted(self.requests.items()) if not self._has_right_drafts(r)],
        }

    def _has_right_drafts(self, request: Request) -> bool:
        """Return whether a victim has no drafts, and any other request those that it had."""
        before = self._fields_before[request.request_id]
        is_victim = request.status is RequestStatus.PREEMPTED and before["status"] is RequestStatus.RUNNING
        return request.spec_token_ids == ([] if is_victim else before["spec_token_ids"])

    def _name(self, request: Request) -> str:
        own = self.requests.get(request.request_id)
        return request.request_id if own is request else f"copy of {request.request_id}"

    def check(self, rule: str, hint: str, **expected: object) -> None:
        """Compare what is named (`budget_left` for "budget left", and so on)."""
        outcome = self.outcome()
        wanted = {LABELS.get(label, label): value for label, value in expected.items()} | {"also changed": []}
        yours = {label: outcome[label] for label in wanted}
        if not any(call.startswith("kv.allocate_slots") for call in self.kv.calls):
            rule, hint = ASKS_MEMORY
        elif "RUNNING" in wanted:
            hint = other_victim(yours["RUNNING"], wanted["RUNNING"]) or hint
        wrong = [label for label in wanted if yours[label] != wanted[label]]
        if {*wrong} <= {"plan", "budget left", "preempted"}:
            hint = f"nothing differs but {' and '.join(wrong)}. Which of your lines change it, and for which requests?"
        hint = alone(yours, wanted, (*BESIDE, "WAITING", "make_room", "requests")) or hint
        expect_equal(yours, wanted, rule=rule, situation=self.before, hint=hint, calls=self.kv.calls)


def other_victim(yours: Any, right: Any) -> str:
    """Return a question about the choice if RUNNING lacks one request and still has another; else nothing."""
    gone, left = (
        ", ".join(name for name in one if name not in other) for one, other in ((right, yours), (yours, right))
    )
    if not gone or not left:
        return ""
    return (
        f"RUNNING lacks {gone}, and {left} should have left it. Does your code choose among all requests that run now, "
        "by the rule of the policy, and does it take out the one that it chose?"
    )


def own_blocks(running: Sequence[Request], block_size: int) -> dict[str, list[int]]:
    """Return block tables in which every request holds just the blocks of its computed tokens."""
    tables: dict[str, list[int]] = {}
    next_id = 1
    for request in running:
        num_blocks = -(-request.num_computed_tokens // block_size)
        tables[request.request_id] = list(range(next_id, next_id + num_blocks))
        next_id += num_blocks
    return tables
