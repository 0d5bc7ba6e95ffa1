"""A waiting queue that skips requests not yet ready for admission; they keep their positions."""

import enum
from collections.abc import Callable, Iterator

from mini_vllm.core.interfaces import RequestQueue
from mini_vllm.core.request import Request, RequestStatus


class Look(enum.Enum):
    """The decision on a waiting request: admit it, skip it, or end admission for this step."""

    READY = enum.auto()
    PASS_OVER = enum.auto()
    STOP = enum.auto()


class PassingQueue:
    """Wraps a `RequestQueue` so that requests can be skipped.

    (vLLM: `skipped_waiting_requests` in `Scheduler.schedule`.)

    `peek_request` calls `look` for each request in turn. If no request is ready, `peek_request` returns one that is
    not. `is_ready` is then False, and the chunk policy grants no tokens, which ends phase 1's admission. At the end of
    the step, `put_back` restores the skipped requests. vLLM 0.13.0 reverses their order (`flipped_skips`); this queue
    preserves it.
    """

    def __init__(self, inner: RequestQueue, look: Callable[[Request], Look]) -> None:
        self.inner = inner
        self.look = look
        self._passes_over = False
        self._passed: list[Request] = []
        self._ready: Request | None = None
        self.deferred: set[str] = set()  # the waiting requests that were skipped when they were last considered

    def start_step(self) -> None:
        """Let `peek_request` search for a ready request until `put_back` is called. At other times a peek changes
        nothing."""
        self._passes_over = True

    def peek_request(self) -> Request:
        if self._ready is not None:
            return self._ready
        while self._passes_over and len(self.inner):
            request = self.inner.peek_request()
            answer = self.look(request)
            if answer is not Look.PASS_OVER:
                self._ready = request if answer is Look.READY else None
                return request
            self._passed.append(self.inner.pop_request())
            self.deferred.add(request.request_id)
        return self._passed[-1] if self._passed else self.inner.peek_request()

    def is_ready(self, request: Request) -> bool:
        """Return whether this request may be admitted next."""
        return request is self._ready

    def put_back(self) -> None:
        """Return the skipped requests to the front of the queue, in their original order."""
        for request in reversed(self._passed):
            self.inner.prepend_request(request)
        self._passes_over, self._passed, self._ready = False, [], None

    def add_request(self, request: Request) -> None:
        self.inner.add_request(request)
        if request.status is RequestStatus.WAITING_FOR_FSM:
            self.deferred.add(request.request_id)

    def prepend_request(self, request: Request) -> None:
        self.inner.prepend_request(request)

    def pop_request(self) -> Request:
        self._ready = None
        request = self.inner.pop_request()
        self.deferred.discard(request.request_id)
        return request

    def remove_request(self, request: Request) -> None:
        self.deferred.discard(request.request_id)
        if any(passed is request for passed in self._passed):
            self._passed = [passed for passed in self._passed if passed is not request]
        else:
            self.inner.remove_request(request)

    def __len__(self) -> int:
        return len(self.inner)

    def __iter__(self) -> Iterator[Request]:
        yield from self._passed
        yield from self.inner
