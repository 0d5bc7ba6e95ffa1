"""A waiting queue in which requests that hold blocks precede all others."""

from collections.abc import Iterator

from mini_vllm.core.interfaces import RequestQueue
from mini_vllm.core.request import Request, RequestStatus


class HoldersFirst:
    """A `RequestQueue` that consists of two queues.

    While `is_paused` is set, only requests with blocks can be admitted.

    The other requests wait for these blocks, so a request with blocks could wait forever if queued after one without.
    (vLLM since 0.31: `Scheduler.kv_holding_waiting`.)
    """

    def __init__(self, holders: RequestQueue, others: RequestQueue) -> None:
        self.holders = holders
        self.others = others
        self.is_paused = False

    def add_request(self, request: Request) -> None:
        self._queue_of(request).add_request(request)

    def prepend_request(self, request: Request) -> None:
        self._queue_of(request).prepend_request(request)

    def peek_request(self) -> Request:
        return (self.holders if len(self.holders) or self.is_paused else self.others).peek_request()

    def pop_request(self) -> Request:
        return (self.holders if len(self.holders) or self.is_paused else self.others).pop_request()

    def remove_request(self, request: Request) -> None:
        is_holder = any(one is request for one in self.holders)
        (self.holders if is_holder else self.others).remove_request(request)

    def __len__(self) -> int:
        return len(self.holders) + (0 if self.is_paused else len(self.others))

    def __iter__(self) -> Iterator[Request]:
        yield from self.holders
        yield from self.others

    def _queue_of(self, request: Request) -> RequestQueue:
        holds = request.num_computed_tokens > 0 or request.status is RequestStatus.WAITING_FOR_REMOTE_KVS
        return self.holders if holds else self.others
