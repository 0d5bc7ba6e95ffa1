"""A waiting queue in the order of a policy."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Any

from mini_vllm.core.policy.scheduling_policy import SchedulingPolicy
from mini_vllm.core.request import Request


class PolicyQueue:
    """A `RequestQueue` by ascending rank. Of equal ranks the first to come is first, and a preempted one before it."""

    def __init__(self, policy: SchedulingPolicy) -> None:
        self.policy = policy
        self._requests: list[Request] = []
        self._ranks: list[Any] = []

    def sort(self) -> None:
        """Ask the policy again for the rank of every request."""
        self._requests.sort(key=self.policy.rank)
        self._ranks = [self.policy.rank(request) for request in self._requests]

    def add_request(self, request: Request) -> None:
        self._insert(request, bisect_right)

    def prepend_request(self, request: Request) -> None:
        self._insert(request, bisect_left)

    def peek_request(self) -> Request:
        return self._requests[0]

    def pop_request(self) -> Request:
        self._ranks.pop(0)
        return self._requests.pop(0)

    def remove_request(self, request: Request) -> None:
        place = self._requests.index(request)
        del self._requests[place], self._ranks[place]

    def _insert(self, request: Request, find: Any) -> None:
        rank = self.policy.rank(request)
        place = find(self._ranks, rank)
        self._requests.insert(place, request)
        self._ranks.insert(place, rank)

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._requests)
