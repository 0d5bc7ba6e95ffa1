"""Dataclass entries with order."""

import heapq
from dataclasses import dataclass, field

from mini_vllm.core.request import Request


@dataclass(order=True, slots=True)
class _Entry:
    priority: int
    arrival: float
    name: str
    request: object = field(compare=False)


class PriorityRequestQueue:
    """Waiting requests by (priority, arrival time, request id): the smallest first.

    There is no front to go back to: a preempted request finds its place by the same rule.
    """

    def __init__(self):
        self._heap = []

    def add_request(self, request):
        """Insert a request in its order of service."""
        heapq.heappush(self._heap, _Entry(request.priority, request.arrival_time, request.request_id, request))

    def prepend_request(self, request: Request) -> None:
        """Insert a preempted request in its order of service; it does not jump the queue."""
        self.add_request(request)

    def peek_request(self):
        """Return the most urgent request without removing it."""
        return self._heap[0].request

    def pop_request(self):
        """Remove the most urgent request and return it."""
        return heapq.heappop(self._heap).request

    def remove_request(self, request):
        """Remove a request from anywhere in the queue."""
        index = next(i for i, e in enumerate(self._heap) if e.request is request)
        self._heap.pop(index)
        heapq.heapify(self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self):
        """Yield the requests in order of service, without removing any."""
        return (e.request for e in sorted(self._heap))
