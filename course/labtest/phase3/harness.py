"""A queue and a full memory on a bench: what your code does with them is written down for the report."""

from collections.abc import Mapping, Sequence
from types import ModuleType

from course.labtest.phase3.doubles import SharedBlocksKV
from course.labtest.support import compare, explained, make_request, waiting_queue
from mini_vllm.core.request import Request
from mini_vllm.core.step import SchedulerOutput
from mini_vllm.seams.interfaces import RequestQueue

ITERATION = (
    "Iteration goes in service order, as popping does, and takes nothing out.",
    "popping gives the right order here, and going through the queue does not: in which order does a heap keep its "
    "list?",
)
NEW_LIST = (
    "A victim leaves RUNNING, and RUNNING is the caller's list.",
    "you preempted somebody, and the caller's list still holds everybody. Does your code change that very list, or "
    "make a new one under the same name?",
)


def rank(request: Request) -> str:
    """Return a request as `A(priority 1, arrived 0.5)`."""
    return f"{request.request_id}(priority {request.priority}, arrived {request.arrival_time:g})"


class QueueBench:
    """Your priority queue and what was done with it."""

    def __init__(self, phase3: ModuleType) -> None:
        self.story: list[str] = ["queue = PriorityRequestQueue()"]
        with explained(self.story):
            self.queue: RequestQueue = phase3.PriorityRequestQueue()

    def add(self, *requests: Request) -> None:
        for request in requests:
            self.story.append(f"add_request({rank(request)})")
            with explained(self.story):
                self.queue.add_request(request)

    def prepend(self, request: Request) -> None:
        self.story.append(f"prepend_request({rank(request)})")
        with explained(self.story):
            self.queue.prepend_request(request)

    def remove(self, request: Request) -> None:
        self.story.append(f"remove_request({request.request_id})")
        with explained(self.story):
            self.queue.remove_request(request)

    def use_another(self) -> None:
        """Make a second queue and leave a request in it."""
        self.story.append("another queue is made: add_request(Z(priority -9, arrived 0)) there")
        with explained(self.story):
            type(self.queue)().add_request(make_request("Z", 4, priority=-9))

    def pop(self) -> Request:
        self.story.append("pop_request()")
        with explained(self.story):
            request = self.queue.pop_request()
        self.story[-1] += f" -> {_name(request)}"
        return request

    def state(self) -> dict[str, object]:
        """Return what the queue says of itself."""
        with explained(self.story):
            return {
                "order": [_name(request) for request in self.queue],
                "length": len(self.queue),
                "peek_request": _name(self.queue.peek_request()) if len(self.queue) else None,
            }

    def check(self, rule: str, hint: str, names: Sequence[str]) -> None:
        """Compare what the queue says, then pop everything and compare the order."""
        expected, before = expected_state(names), list(self.story)
        yours = self.state()
        popped = [_name(self.pop()) for _ in names] if yours["length"] == len(names) else []
        if popped == list(names) and yours["order"] != popped:
            rule, hint = ITERATION
        compare(rule, before=before, expected=expected, yours=yours, hint=hint)
        compare(
            rule,
            before=self.story,
            expected={"popped, in order": list(names), "length": 0},
            yours={"popped, in order": popped, "length": len(self.queue)},
            hint=hint,
        )


def expected_state(names: Sequence[str]) -> dict[str, object]:
    """Return what a queue with these names, in service order, says of itself."""
    return {"order": list(names), "length": len(names), "peek_request": names[0] if names else None}


def _name(request: object) -> object:
    return request.request_id if isinstance(request, Request) else request


class RoomBench:
    """Running requests in a memory that is short. Without tables given, each holds blocks of its own, in order."""

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
        self.running_before = [r.request_id for r in running]
        self.waiting: RequestQueue = waiting_queue(waiting) if queue is None else queue
        self.requests = {r.request_id: r for r in (*self.running, *self.waiting)}
        if tables is None:
            tables = own_blocks(running, block_size)
        self.kv = kv or SharedBlocksKV(num_blocks, block_size, tables)
        self.step = SchedulerOutput(budget, dict(plan or {}))
        self.before = [
            "RUNNING " + (", ".join(f"{rank(r)} {r.num_computed_tokens}/{r.num_tokens}" for r in running) or "nobody"),
            "WAITING " + (", ".join(map(rank, self.waiting)) or "nobody"),
            f"plan {self.step.num_scheduled_tokens}, budget left {budget}",
            f"memory {num_blocks} blocks of {block_size} tokens, held: {dict(tables)}",
        ]

    def make_room(self, preemption: object, request: Request, num_new_tokens: int) -> object:
        """Call `make_room` of your class."""
        self.before.append(f"make_room({request.request_id}, {num_new_tokens})")
        with explained(self.before, self.kv.calls):
            return preemption.make_room(  # type: ignore[attr-defined]
                request, num_new_tokens, self.running, self.waiting, self.step, self.kv
            )

    def outcome(self, answer: object) -> dict[str, object]:
        """Return everything that `make_room` decides."""
        return {
            "make_room": answer,
            "RUNNING": [r.request_id for r in self.running],
            "WAITING": [r.request_id for r in self.waiting],
            "plan": list(self.step.num_scheduled_tokens.items()),
            "budget left": self.step.token_budget,
            "preempted": [(p.victim_id, p.cause_id, p.num_tokens_returned) for p in self.step.preempted],
            "block tables": {name: self.kv.tables[name] for name in sorted(self.kv.tables)},
            "freed, in order": self.kv.frees(),
            "requests": [
                f"{name} {r.status.name} {r.num_computed_tokens}/{r.num_tokens}, preempted {r.num_preemptions}x"
                for name, r in sorted(self.requests.items())
            ],
        }

    def check(self, rule: str, hint: str, answer: object, **expected: object) -> None:
        """Compare what is named (`budget_left` for "budget left", and so on)."""
        yours = self.outcome(answer)
        wanted = {label: expected[label] for label in expected}
        for label in ("budget left", "block tables"):
            if label.replace(" ", "_") in wanted:
                wanted[label] = wanted.pop(label.replace(" ", "_"))
        if yours["RUNNING"] == self.running_before and yours["RUNNING"] != wanted.get("RUNNING", yours["RUNNING"]):
            rule, hint = NEW_LIST if yours["preempted"] else (rule, hint)
        compare(rule, before=self.before, expected=wanted, yours=yours, hint=hint, calls=self.kv.calls)


def own_blocks(running: Sequence[Request], block_size: int) -> dict[str, list[int]]:
    """Return block tables in which every request holds just the blocks of its computed tokens."""
    tables: dict[str, list[int]] = {}
    next_id = 1
    for request in running:
        num_blocks = -(-request.num_computed_tokens // block_size)
        tables[request.request_id] = list(range(next_id, next_id + num_blocks))
        next_id += num_blocks
    return tables
