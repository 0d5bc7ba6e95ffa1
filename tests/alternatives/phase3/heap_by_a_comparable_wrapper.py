"""Heap by a comparable wrapper."""

import functools
import heapq
from typing import Any

from mini_vllm.core.request import Request


@functools.total_ordering
class _Ranked:
    def __init__(self, request):
        self.request = request
        self.rank = (request.priority, request.arrival_time, request.request_id)

    def __lt__(self, other):
        return self.rank < other.rank

    def __eq__(self, other):
        return self.rank == other.rank


class PriorityRequestQueue:
    """Waiting requests by (priority, arrival time, request id): the smallest first.

    There is no front to go back to: a preempted request finds its place by the same rule.
    """

    def __init__(self) -> None:
        self._heap: list[Any] = []

    def add_request(self, request):
        """Insert a request in its order of service."""
        heapq.heappush(self._heap, _Ranked(request))

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
        self._heap = [e for e in self._heap if e.request.request_id != request.request_id]
        heapq.heapify(self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self):
        """Yield the requests in order of service, without removing any."""
        return iter([e.request for e in sorted(self._heap)])
