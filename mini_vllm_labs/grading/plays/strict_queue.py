"""Provides a waiting queue that can be used only through its Protocol, and that counts the cost of each use."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from mini_vllm.core.request import Request


class StrictQueue:
    """A queue in order of arrival or in a given `order` of ids; no attribute gives access to the requests.

    `cost` counts uses of the queue and requests yielded by iteration.
    """

    __slots__ = ("_order", "_use", "cost")

    def __init__(self, requests: Iterable[Request] = (), order: Sequence[str] = ()) -> None:
        inside = deque(requests)  # in a closure, because with an attribute the Protocol could be bypassed
        self._order, self.cost = order, 0
        self._sort(inside)

        def use() -> deque[Request]:
            self.cost += 1
            return inside

        self._use: Callable[[], deque[Request]] = use

    def __reduce__(self) -> tuple[type["StrictQueue"], tuple[list[Request], Sequence[str]]]:
        return StrictQueue, (list(self._use()), self._order)

    def __repr__(self) -> str:
        return "the waiting queue"

    def add_request(self, request: Request) -> None:
        inside = self._use()
        inside.append(request)
        self._sort(inside)

    def prepend_request(self, request: Request) -> None:
        inside = self._use()
        inside.appendleft(request)
        self._sort(inside)

    def peek_request(self) -> Request:
        return self._first()[0]

    def pop_request(self) -> Request:
        return self._first().popleft()

    def remove_request(self, request: Request) -> None:
        inside = self._use()
        if request not in inside:
            raise ValueError(
                f"remove_request({request.request_id}) was called, but the request is not in the waiting queue"
            )
        inside.remove(request)

    def __len__(self) -> int:
        return len(self._use())

    def __iter__(self) -> Iterator[Request]:
        for request in tuple(self._use()):  # a copy, because the caller may remove requests during the iteration
            self.cost += 1
            yield request

    def _sort(self, inside: deque[Request]) -> None:
        if self._order:
            by_order = sorted(inside, key=lambda request: self._order.index(request.request_id))
            inside.clear()
            inside.extend(by_order)

    def _first(self) -> deque[Request]:
        inside = self._use()
        if not inside:
            error = IndexError("no request is waiting: the queue is empty")
            error.add_note("Hint: which line checks that a request is waiting before your code looks at the first one?")
            raise error
        return inside
