"""What is done with phase 3's functions outside of an engine."""

from collections.abc import Sequence
from typing import Any

from classroom.worker.drivers.attempt import Operation, Result, attempt
from mini_vllm.config import Policy
from mini_vllm.core.absent import SlotReservation
from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.request import Request
from mini_vllm.core.request_queue import FCFSRequestQueue
from mini_vllm.core.step import SchedulerOutput


def priority_queue(file: Any, requests: list[Request], operations: list[Operation]) -> Result:
    """Add, take and remove requests; record the requests taken and the remaining order."""
    queue, seen = file.PriorityRequestQueue(), Result()
    for name, *numbers in operations:
        arguments = [requests[number] for number in numbers]
        found = attempt(lambda name=name, arguments=arguments: getattr(queue, name)(*arguments))  # type: ignore[misc]
        seen.append(found.request_id if isinstance(found, Request) else None)
        seen.append([len(queue), [request.request_id for request in queue]])
    return seen


def choose_victim(file: Any, cases: list[tuple[list[Request], str]]) -> Result:
    """Return the ids of the victims."""
    return [file.choose_victim(running, policy).request_id for running, policy in cases]


class CountedMemory(SlotReservation):
    """A KV cache manager that only counts blocks and records which requests are freed."""

    def __init__(self, num_free: int, block_size: int, held: dict[str, int]) -> None:
        super().__init__(num_free + sum(held.values()), 100)
        self.block_size = block_size
        self.num_free = num_free
        self.held = dict(held)
        self.freed: list[list[str | int]] = []

    @property
    def num_free_blocks(self) -> int:
        return self.num_free

    def allocate_slots(
        self,
        request: Request,
        num_new_tokens: int,
        hit_blocks: Sequence[int] = (),
        num_lookahead_tokens: int = 0,
    ) -> list[int] | None:
        held = self.held.get(request.request_id, 0)
        num_more = cdiv(request.num_computed_tokens + num_new_tokens, self.block_size) - held
        if num_more > self.num_free:
            return None
        self.held[request.request_id] = held + num_more
        self.num_free -= num_more
        return [0] * num_more

    def free(self, request: Request, num_computed_tokens: int) -> None:
        self.freed.append([request.request_id, num_computed_tokens])
        self.num_free += self.held.pop(request.request_id, 0)


def make_room(file: Any, policy: Policy, block_size: int, cases: list[Any]) -> Result:
    """Make room, case by case: see `make_room_once`."""
    return [make_room_once(file, policy, block_size, *case) for case in cases]


def make_room_once(
    file: Any, policy: Policy, block_size: int, running: list[Request], index: int, num_new: int, plan: list[Any]
) -> Result:
    """Free blocks for one of the running requests; `plan` is the remaining budget, the planned tokens, the blocks held.

    Notes the answer, both queues, the plan, the memory, and every request's numbers.
    """
    before, request = list(running), running[index]
    budget, planned, num_free, held = plan
    scheduler_output = SchedulerOutput(budget, dict(planned))
    waiting, kv = FCFSRequestQueue(), CountedMemory(num_free, block_size, dict(held))
    other_policy = "fcfs" if policy == "priority" else "priority"  # of other engines in the same process
    _, preemption, _ = [file.RecomputePreemption(name) for name in (other_policy, policy, other_policy)]
    is_held = preemption.make_room(request, num_new, running, waiting, scheduler_output, kv)
    queues = [[other.request_id for other in queue] for queue in (running, waiting)]
    preempted = [[row.victim_id, row.cause_id, row.num_tokens_returned] for row in scheduler_output.preempted]
    numbers = [
        [
            *(int(other.status), other.num_computed_tokens, other.num_cached_tokens),
            *(other.num_preemptions, other.num_prompt_tokens, other.num_tokens),
        ]
        for other in before
    ]
    left = sorted(scheduler_output.num_scheduled_tokens.items())
    return [
        bool(is_held),
        queues,
        preempted,
        scheduler_output.token_budget,
        left,
        kv.freed,
        sorted(kv.held.items()),
        numbers,
    ]
