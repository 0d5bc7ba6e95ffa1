"""Sorts waiting and running requests in a single order."""

from collections.abc import Callable, Sequence
from heapq import nsmallest
from typing import Any

from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy, StepView
from mini_vllm_labs.policies.around import Around

READY = (RequestStatus.WAITING, RequestStatus.PREEMPTED)


def can_run(request: Request) -> bool:
    """Return whether a waiting request could run now; it cannot while it waits for a grammar or transfer."""
    return request.status in READY


def worst_first(running: Sequence[Request], rank: Callable[[Request], Any]) -> list[Request]:
    """Return the running requests in descending order of rank; among equal ranks, the last request comes first."""
    found = list(running[::-1])
    found.sort(key=rank, reverse=True)  # the sort keeps the order of equal ranks
    return found


def outranked(
    step: StepView, rank: Callable[[Request], Any], may_go: Callable[[Request], bool] = lambda request: True
) -> list[Request]:
    """Return the running requests that must give way to waiting requests of lower rank, highest rank first."""
    ready = list(filter(can_run, step.waiting))
    if not ready:
        return []
    num_free = step.max_num_seqs - len(step.running)
    first = nsmallest(step.max_num_seqs, ready, key=rank)[num_free:]
    last = worst_first([request for request in step.running if may_go(request)], rank)
    return [holder for holder, taker in zip(last, first, strict=False) if rank(taker) < rank(holder)]


class JointOrder(Around):
    """Sorts waiting and running requests together by a different policy's rank; the first `max_num_seqs` run.

    vLLM issue 6077 proposed this for priorities; vLLM's scheduler sorts only the waiting queue. Here, running requests
    give way when `max_num_seqs` is reached, not when blocks run out. Running requests give way only after they have
    received a token, because otherwise two requests with changing ranks could take turns forever. The other policy
    chooses the order of service, and the victims when blocks run out.
    """

    def __init__(self, inner: SchedulingPolicy | None = None) -> None:
        super().__init__(inner)
        self._num_outputs: dict[str, int] = {}  # how many output tokens each running request had when it was admitted

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
