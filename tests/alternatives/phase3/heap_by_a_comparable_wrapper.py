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
        """Put a request where its priority belongs."""
        heapq.heappush(self._heap, _Ranked(request))

    def prepend_request(self, request: Request) -> None:
        """Put a preempted request where its priority belongs."""
        self.add_request(request)

    def peek_request(self):
        """Return the most urgent request and leave it where it is."""
        return self._heap[0].request

    def pop_request(self):
        """Take the most urgent request out and return it."""
        return heapq.heappop(self._heap).request

    def remove_request(self, request):
        """Take out a request from anywhere in the queue."""
        self._heap = [e for e in self._heap if e.request.request_id != request.request_id]
        heapq.heapify(self._heap)

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self):
        """Go through the requests in the order in which they would be looked at."""
        return iter([e.request for e in sorted(self._heap)])
