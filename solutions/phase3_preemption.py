"""Phase 3, reference: who gives way when memory is short.

vLLM: the allocate-or-preempt loop of `Scheduler.schedule`, `Scheduler._preempt_request`, and
`PriorityRequestQueue` in `v1/core/sched/request_queue.py`.
"""

import heapq
from collections.abc import Iterator

from mini_vllm.config import Policy
from mini_vllm.core.request import Request
from mini_vllm.core.step import Preempted, SchedulerOutput
from mini_vllm.seams.interfaces import KVCacheManager, RequestQueue


class PriorityRequestQueue:
    """Waiting requests by (priority, arrival time, request id): the smallest first.

    There is no front to go back to: a preempted request finds its place by the same rule.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, float, str, Request]] = []

    def add_request(self, request: Request) -> None:
        """Put a request where its priority belongs."""
        heapq.heappush(self._heap, (request.priority, request.arrival_time, request.request_id, request))

    def prepend_request(self, request: Request) -> None:
        """Put a preempted request where its priority belongs."""
        self.add_request(request)

    def peek_request(self) -> Request:
        """Return the most urgent request and leave it where it is."""
        return self._heap[0][-1]

    def pop_request(self) -> Request:
        """Take the most urgent request out and return it."""
        return heapq.heappop(self._heap)[-1]

    def remove_request(self, request: Request) -> None:
        """Take out a request from anywhere in the queue."""
        self._heap = [entry for entry in self._heap if entry[-1] is not request]
        heapq.heapify(self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Request]:
        """Go through the requests in the order in which they would be looked at."""
        return (entry[-1] for entry in sorted(self._heap))


def choose_victim(running: list[Request], policy: Policy) -> Request:
    """Return the running request that gives way: the last one (`fcfs`), or the least urgent (`priority`).

    Least urgent is the largest (priority, arrival time); of several, the first in running order.
    """
    if policy == "priority":
        return max(running, key=lambda request: (request.priority, request.arrival_time))
    return running[-1]


def preempt(request: Request, waiting: RequestQueue, kv: KVCacheManager) -> None:
    """Take the blocks of a request and send it back to wait. Its tokens stay, their K and V go."""
    kv.free(request, request.num_computed_tokens)
    request.preempt()
    waiting.prepend_request(request)


class RecomputePreemption:
    """Preemption by recomputation: a victim starts again from its first token, or from its prefix hit."""

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

        Victims leave `running`, enter `waiting`, and are entered in `scheduler_output.preempted`; a victim that
        `scheduler_output` had planned leaves the plan and its tokens return to `scheduler_output.token_budget`.
        True: the slots are held. False: `request` was its own last victim.
        """
        while kv.allocate_slots(request, num_new_tokens) is None:
            victim = choose_victim(running, self.policy)
            running.remove(victim)
            preempt(victim, waiting, kv)
            num_returned = scheduler_output.num_scheduled_tokens.pop(victim.request_id, 0)
            scheduler_output.token_budget += num_returned
            scheduler_output.preempted.append(Preempted(victim.request_id, request.request_id, num_returned))
            if victim is request:
                return False
        return True
