"""Phase 3: who gives way when memory is short.

The loop of phase 1 calls `make_room` when a running request is refused memory.
"""

import heapq
from collections.abc import Iterator

from mini_vllm.config import Policy
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import Preempted, SchedulerOutput
from mini_vllm.seams.interfaces import KVCacheManager, RequestQueue


class PriorityRequestQueue:
    """Waiting requests by (priority, arrival time, request id): the smallest first.

    There is no front to go back to: a preempted request finds its place by the same rule.
    """

    def __init__(self) -> None:
        # A heap (`heapq`) of tuples does it: compare priority, then arrival time, then the id as a string.
        raise NotImplementedError("Phase 3, task 1: make the queue")

    def add_request(self, request: Request) -> None:
        """Put a request where its priority belongs."""
        raise NotImplementedError("Phase 3, task 1: add_request")

    def prepend_request(self, request: Request) -> None:
        """Put a preempted request where its priority belongs."""
        # A heap has no front.
        raise NotImplementedError("Phase 3, task 1: prepend_request")

    def peek_request(self) -> Request:
        """Return the most urgent request and leave it where it is."""
        raise NotImplementedError("Phase 3, task 1: peek_request")

    def pop_request(self) -> Request:
        """Take the most urgent request out and return it."""
        raise NotImplementedError("Phase 3, task 1: pop_request")

    def remove_request(self, request: Request) -> None:
        """Take out a request from anywhere in the queue."""
        # An abort may hit anybody in the queue. What is left must be a heap again.
        raise NotImplementedError("Phase 3, task 1: remove_request")

    def __len__(self) -> int:
        raise NotImplementedError("Phase 3, task 1: the length")

    def __iter__(self) -> Iterator[Request]:
        """Go through the requests in the order in which they would be looked at."""
        # In service order, which is not the order in which a heap is stored. Take nothing out.
        raise NotImplementedError("Phase 3, task 1: the order")


def choose_victim(running: list[Request], policy: Policy) -> Request:
    """Return the running request that gives way: the last one (`fcfs`), or the least urgent (`priority`).

    Least urgent is the largest (priority, arrival time); of several, the first in running order.
    """
    # `max` returns the first of several equal ones.
    raise NotImplementedError("Phase 3, task 2: choose_victim")


def preempt(request: Request, waiting: RequestQueue, kv: KVCacheManager) -> None:
    """Take the blocks of a request and send it back to wait. Its tokens stay, their K and V go."""
    # `kv.free` needs the number of computed tokens, and `request.preempt()` sets it to 0: mind the order.
    # Then back to `waiting`, in front.
    raise NotImplementedError("Phase 3, task 3: preempt")


class RecomputePreemption:
    """Preemption by recomputation: a victim starts again from its first token, or from its prefix hit."""

    def __init__(self, policy: Policy) -> None:
        raise NotImplementedError("Phase 3, task 4: keep the policy")

    def make_room(
        self,
        request: Request,
        num_new_tokens: int,
        running: list[Request],
        waiting: RequestQueue,
        scheduler_output: SchedulerOutput,
        kv: KVCacheManager,
    ) -> bool:
        """Preempt running requests until `request` holds slots for `num_new_tokens` more tokens.

        Victims leave `running`, enter `waiting`, and are entered in `scheduler_output.preempted`; a victim that
        `scheduler_output` had planned leaves the plan and its tokens return to `scheduler_output.token_budget`.
        True: the slots are held. False: `request` was its own last victim.
        """
        # Until `kv.allocate_slots(request, num_new_tokens)` succeeds (an empty list is a success):
        # 1. Choose a victim, take it out of `running`, preempt it.
        # 2. If this step had planned it: out of the plan, and its tokens back to the budget.
        # 3. Enter Preempted(victim id, id of the request that needed the room, tokens returned).
        # 4. If the victim was the request itself, nothing is held: return False.
        raise NotImplementedError("Phase 3, task 4: make_room")
