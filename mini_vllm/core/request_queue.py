"""The waiting queue for first come, first served. (vLLM: `v1/core/sched/request_queue.py`.)"""

from collections import deque
from collections.abc import Iterator

from mini_vllm.core.request import Request


class FCFSRequestQueue:
    """Requests in order of arrival; a preempted request goes back to the front."""

    def __init__(self) -> None:
        self._requests: deque[Request] = deque()

    def add_request(self, request: Request) -> None:
        """Put a new request at the back."""
        self._requests.append(request)

    def prepend_request(self, request: Request) -> None:
        """Put a preempted request at the front."""
        self._requests.appendleft(request)

    def peek_request(self) -> Request:
        """Return the next request without removing it."""
        return self._requests[0]

    def pop_request(self) -> Request:
        """Remove and return the next request."""
        return self._requests.popleft()

    def remove_request(self, request: Request) -> None:
        """Remove a request from anywhere in the queue."""
        self._requests.remove(request)

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        """Iterate over the requests in queue order."""
        return iter(self._requests)
