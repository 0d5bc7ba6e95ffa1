"""A waiting queue that a policy orders."""

from bisect import insort
from collections.abc import Iterator
from typing import Any

from mini_vllm.core.request import Request
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy


class PolicyQueue:
    """A `RequestQueue` in ascending order of rank.

    Requests with equal ranks are in order of arrival, preempted requests first.
    """

    def __init__(self, policy: SchedulingPolicy) -> None:
        self.policy = policy
        # (rank, sequence number, request): the sequence number breaks ties, so that the requests themselves are never
        # compared.
        self._entries: list[tuple[Any, int, Request]] = []
        self._first = self._last = 0

    def sort(self) -> None:
        """Reorder the queue by the policy's current ranks."""
        self._entries = [(self.policy.rank(request), number, request) for _, number, request in self._entries]
        self._entries.sort()

    def add_request(self, request: Request) -> None:
        self._last += 1
        insort(self._entries, (self.policy.rank(request), self._last, request))

    def prepend_request(self, request: Request) -> None:
        self._first -= 1
        insort(self._entries, (self.policy.rank(request), self._first, request))

    def peek_request(self) -> Request:
        return self._entries[0][-1]

    def pop_request(self) -> Request:
        return self._entries.pop(0)[-1]

    def remove_request(self, request: Request) -> None:
        self._entries = [entry for entry in self._entries if entry[-1] is not request]

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Request]:
        return (entry[-1] for entry in self._entries)
