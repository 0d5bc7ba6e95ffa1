"""A waiting queue that can be used through its Protocol only, and that counts what each use costs."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from mini_vllm.core.request import Request


class StrictQueue:
    """First come, first served; no attribute leads to the requests.

    `cost` counts uses of the queue and requests that iteration has yielded.
    """

    __slots__ = ("_use", "cost")

    def __init__(self, requests: Iterable[Request] = ()) -> None:
        inside = deque(requests)  # in a closure: an attribute would be a way around the Protocol
        self.cost = 0

        def use() -> deque[Request]:
            self.cost += 1
            return inside

        self._use: Callable[[], deque[Request]] = use

    def __reduce__(self) -> tuple[type["StrictQueue"], tuple[list[Request]]]:
        return StrictQueue, (list(self._use()),)

    def __repr__(self) -> str:
        return "the waiting queue"

    def add_request(self, request: Request) -> None:
        self._use().append(request)

    def prepend_request(self, request: Request) -> None:
        self._use().appendleft(request)

    def peek_request(self) -> Request:
        return self._first()[0]

    def pop_request(self) -> Request:
        return self._first().popleft()

    def remove_request(self, request: Request) -> None:
        inside = self._use()
        if request not in inside:
            raise ValueError(f"remove_request({request.request_id}), which is not in the waiting queue")
        inside.remove(request)

    def __len__(self) -> int:
        return len(self._use())

    def __iter__(self) -> Iterator[Request]:
        for request in tuple(self._use()):  # a copy: the caller may take out what it is given
            self.cost += 1
            yield request

    def _first(self) -> deque[Request]:
        inside = self._use()
        if not inside:
            error = IndexError("no request is waiting: the queue is empty")
            error.add_note("Hint: which line checks that a request is waiting before your code looks at the first one?")
            raise error
        return inside
