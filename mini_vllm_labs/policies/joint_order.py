"""Waiting and running requests in one order."""

from collections.abc import Callable, Sequence
from heapq import nsmallest
from typing import Any

from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy, StepView
from mini_vllm_labs.policies.around import Around

READY = (RequestStatus.WAITING, RequestStatus.PREEMPTED)


def can_run(request: Request) -> bool:
    """Return whether a waiting request could use a seat: one that waits for a grammar or a transfer could not."""
    return request.status in READY


def worst_first(running: Sequence[Request], rank: Callable[[Request], Any]) -> list[Request]:
    """Return the running requests by descending rank, of equal ones the last in line first."""
    found = list(running[::-1])
    found.sort(key=rank, reverse=True)  # leaves equal ones as they are
    return found


def outranked(
    step: StepView, rank: Callable[[Request], Any], may_go: Callable[[Request], bool] = lambda request: True
) -> list[Request]:
    """Return the running requests whose seats waiting ones of smaller rank are to take, the largest rank first."""
    ready = list(filter(can_run, step.waiting))
    if not ready:
        return []
    num_free = step.max_num_seqs - len(step.running)
    first = nsmallest(step.max_num_seqs, ready, key=rank)[num_free:]
    last = worst_first([request for request in step.running if may_go(request)], rank)
    return [holder for holder, taker in zip(last, first, strict=False) if rank(taker) < rank(holder)]


class JointOrder(Around):
    """Sorts waiting and running requests together by another policy's rank: the first `max_num_seqs` get the seats.

    vLLM issue 6077 proposed it for priorities; its scheduler sorts the waiting queue alone. Here running requests give
    way when seats are short, not when blocks are, and only once they have got a token: if ranks change, two of them
    would else take turns for ever. The victims of a lack of blocks and the order of service are the other policy's.
    """

    def __init__(self, inner: SchedulingPolicy | None = None) -> None:
        super().__init__(inner)
        self._num_outputs: dict[str, int] = {}  # of running requests, when they were admitted

    def start_step(self, step: StepView) -> None:
        super().start_step(step)
        names = {request.request_id for request in step.running}
        self._num_outputs = {name: count for name, count in self._num_outputs.items() if name in names}

    def to_preempt(self, step: StepView) -> Sequence[Request]:
        given = list(self.inner.to_preempt(step))
        return [*given, *(request for request in outranked(step, self.rank, self._has_got) if request not in given)]

    def scheduled(self, shares: Sequence[tuple[Request, int]]) -> None:
        super().scheduled(shares)
        for request, _ in shares:
            self._num_outputs.setdefault(request.request_id, request.num_output_tokens)

    def _has_got(self, request: Request) -> bool:
        return request.num_output_tokens > self._num_outputs.get(request.request_id, request.num_output_tokens)
