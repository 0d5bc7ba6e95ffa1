"""A list that is kept in order with bisect, instead of a heap."""

from bisect import insort
from collections.abc import Iterator

from mini_vllm.core.request import Request


def urgency(request: Request) -> tuple[int, float, str]:
    return request.priority, request.arrival_time, request.request_id


class PriorityRequestQueue:
    def __init__(self) -> None:
        self._requests: list[Request] = []

    def add_request(self, request: Request) -> None:
        insort(self._requests, request, key=urgency)

    prepend_request = add_request

    def peek_request(self) -> Request:
        return self._requests[0]

    def pop_request(self) -> Request:
        return self._requests.pop(0)

    def remove_request(self, request: Request) -> None:
        self._requests.remove(request)

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        yield from self._requests
