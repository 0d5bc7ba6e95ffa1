"""Phase 3: which request to preempt when KV blocks run out.

The loop of phase 1 calls `make_room` when a running request is refused memory. The handout has the rules; `mini-vllm
hint 3.1` prints a hint, one step at a time.
"""

import heapq
from collections.abc import Iterator

from mini_vllm.config import Policy
from mini_vllm.core.interfaces import KVCacheManager, RequestQueue
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.core.step import Preempted, SchedulerOutput


class PriorityRequestQueue:
    """Waiting requests ordered by (priority, arrival time, request id), smallest first.

    A preempted request is ordered by the same rule, because the queue has no front for it to return to.
    """

    def __init__(self) -> None:
        # An empty queue.
        raise NotImplementedError("Phase 3, task 1: make the queue")

    def add_request(self, request: Request) -> None:
        """Insert a request at its position in the order of service."""
        raise NotImplementedError("Phase 3, task 1: add_request")

    def prepend_request(self, request: Request) -> None:
        """Insert a preempted request at its position in the order of service; it does not jump the queue."""
        raise NotImplementedError("Phase 3, task 1: prepend_request")

    def peek_request(self) -> Request:
        """Return the most urgent request without removing it."""
        raise NotImplementedError("Phase 3, task 1: peek_request")

    def pop_request(self) -> Request:
        """Remove the most urgent request and return it."""
        raise NotImplementedError("Phase 3, task 1: pop_request")

    def remove_request(self, request: Request) -> None:
        """Remove a request from anywhere in the queue. Any waiting request may be aborted."""
        raise NotImplementedError("Phase 3, task 1: remove_request")

    def __len__(self) -> int:
        raise NotImplementedError("Phase 3, task 1: __len__")

    def __iter__(self) -> Iterator[Request]:
        """Yield the requests in order of service, without removing any."""
        raise NotImplementedError("Phase 3, task 1: __iter__")


def choose_victim(running: list[Request], policy: Policy) -> Request:
    """Return the running request to preempt: the last one (`fcfs`), or the least urgent one (`priority`).

    The least urgent request has the largest (priority, arrival time); in a tie it is the first in running order.
    """
    raise NotImplementedError("Phase 3, task 2: choose_victim")


def preempt(request: Request, waiting: RequestQueue, kv: KVCacheManager) -> None:
    """Free a request's blocks and return the request to the waiting queue. The request keeps its tokens, but not their
    K and V."""
    raise NotImplementedError("Phase 3, task 3: preempt")


class RecomputePreemption:
    """Preemption by recomputation: a victim starts again at its first token, or after its prefix hit."""

    def __init__(self, policy: Policy) -> None:
        raise NotImplementedError("Phase 3, task 4: store the policy")

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

        Victims move from `running` to `waiting` and are recorded in `scheduler_output.preempted`. A victim that was
        scheduled in this step leaves the plan, and its tokens return to `scheduler_output.token_budget`. Return True if
        `request` holds its slots, or False if `request` itself was the last victim.
        """
        raise NotImplementedError("Phase 3, task 4: make_room")
