"""A heap of small objects with an order of their own; who is removed stays in it and is passed over later."""

import heapq
from collections.abc import Iterator
from functools import total_ordering

from mini_vllm.core.request import Request


@total_ordering
class Entry:
    def __init__(self, request: Request) -> None:
        self.request = request
        self.key = (request.priority, request.arrival_time, request.request_id)
        self.is_gone = False

    def __lt__(self, other: "Entry") -> bool:
        return self.key < other.key


class PriorityRequestQueue:
    def __init__(self) -> None:
        self._heap: list[Entry] = []
        self._entries: dict[str, Entry] = {}

    def add_request(self, request: Request) -> None:
        entry = self._entries[request.request_id] = Entry(request)
        heapq.heappush(self._heap, entry)

    def prepend_request(self, request: Request) -> None:
        self.add_request(request)

    def peek_request(self) -> Request:
        while self._heap[0].is_gone:
            heapq.heappop(self._heap)
        return self._heap[0].request

    def pop_request(self) -> Request:
        request = self.peek_request()
        self.remove_request(request)
        return request

    def remove_request(self, request: Request) -> None:
        self._entries.pop(request.request_id).is_gone = True

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Request]:
        return iter([entry.request for entry in sorted(self._entries.values())])
