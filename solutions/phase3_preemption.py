"""Phase 3, reference: which request to preempt when KV blocks run out.

vLLM: the allocate-or-preempt loop of `Scheduler.schedule`, `Scheduler._preempt_request`, and
`PriorityRequestQueue` in `v1/core/sched/request_queue.py`.
"""

import heapq
from collections.abc import Iterator

from mini_vllm.config import Policy
from mini_vllm.core.interfaces import KVCacheManager, RequestQueue
from mini_vllm.core.request import Request
from mini_vllm.core.step import Preempted, SchedulerOutput


class PriorityRequestQueue:
    """Waiting requests ordered by (priority, arrival time, request id), smallest first.

    A preempted request is ordered by the same rule, because the queue has no front for it to return to.
    """

    def __init__(self) -> None:
        # The id makes every tuple different, so that two requests are never compared with each other.
        self._heap: list[tuple[int, float, str, Request]] = []

    def add_request(self, request: Request) -> None:
        """Insert a request at its position in the order of service."""
        heapq.heappush(self._heap, (request.priority, request.arrival_time, request.request_id, request))

    def prepend_request(self, request: Request) -> None:
        """Insert a preempted request at its position in the order of service; it does not jump the queue."""
        self.add_request(request)

    def peek_request(self) -> Request:
        """Return the most urgent request without removing it."""
        return self._heap[0][-1]

    def pop_request(self) -> Request:
        """Remove the most urgent request and return it."""
        return heapq.heappop(self._heap)[-1]

    def remove_request(self, request: Request) -> None:
        """Remove a request from anywhere in the queue. Any waiting request may be aborted."""
        # O(n), but only an abort gets here; with lazy deletion, every other method would have to skip deleted entries.
        self._heap = [entry for entry in self._heap if entry[-1] is not request]
        heapq.heapify(self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Request]:
        """Yield the requests in order of service, without removing any."""
        # In the heap's list, only the first entry is sure to be in order, so the list must be sorted before it is read.
        return (entry[-1] for entry in sorted(self._heap))


def choose_victim(running: list[Request], policy: Policy) -> Request:
    """Return the running request to preempt: the last one (`fcfs`), or the least urgent one (`priority`).

    The least urgent request has the largest (priority, arrival time); in a tie it is the first in running order.
    """
    if policy == "priority":
        # If several requests tie, `max` returns the first of them, as vLLM's does. We search instead of sorting: the
        # order of `running` is the order in which requests are served, and must not change.
        return max(running, key=lambda request: (request.priority, request.arrival_time))
    # The request admitted last has computed the least, and preempting it preserves the order of arrival.
    return running[-1]


def preempt(request: Request, waiting: RequestQueue, kv: KVCacheManager) -> None:
    """Free a request's blocks and return the request to the waiting queue. The request keeps its tokens, but not their
    K and V."""
    # Free first, while the counter still shows which blocks were computed: the prefix cache can still find them later.
    kv.free(request, request.num_computed_tokens)
    request.preempt()
    # To the front, because it arrived before all waiting requests. At the back, newcomers could always overtake it.
    waiting.prepend_request(request)


class RecomputePreemption:
    """Preemption by recomputation: a victim starts again at its first token, or after its prefix hit."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

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
        # Try again after each victim instead of counting its blocks, because freeing it does not free shared blocks.
        while kv.allocate_slots(request, num_new_tokens) is None:
            victim = choose_victim(running, self.policy)
            running.remove(victim)
            preempt(victim, waiting, kv)
            # Under PRIORITY, the victim may already have been scheduled in this step. If it stayed in the plan, it
            # would write into blocks that a different request holds by then.
            num_returned = scheduler_output.num_scheduled_tokens.pop(victim.request_id, 0)
            scheduler_output.token_budget += num_returned
            scheduler_output.preempted.append(Preempted(victim.request_id, request.request_id, num_returned))
            # Checked last, because a request that preempts itself is a victim like any other: it is freed, queued and
            # recorded.
            if victim is request:
                return False
        return True
