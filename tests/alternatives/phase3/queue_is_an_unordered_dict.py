"""A dictionary by request id that looks for the smallest whenever it is asked."""

from collections.abc import Iterator

from mini_vllm.core.request import Request


class PriorityRequestQueue:
    def __init__(self) -> None:
        self._requests: dict[str, Request] = {}

    def add_request(self, request: Request) -> None:
        self._requests[request.request_id] = request

    def prepend_request(self, request: Request) -> None:
        self._requests = {request.request_id: request, **self._requests}

    def peek_request(self) -> Request:
        return next(iter(self))

    def pop_request(self) -> Request:
        return self._requests.pop(self.peek_request().request_id)

    def remove_request(self, request: Request) -> None:
        del self._requests[request.request_id]

    def __len__(self) -> int:
        return sum(1 for _ in self._requests)

    def __iter__(self) -> Iterator[Request]:
        by_id = sorted(self._requests.values(), key=lambda request: request.request_id)
        by_arrival = sorted(by_id, key=lambda request: request.arrival_time)
        return iter(sorted(by_arrival, key=lambda request: request.priority))
