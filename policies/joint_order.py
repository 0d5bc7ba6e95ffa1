"""Waiting and running requests in one order."""

from collections.abc import Callable, Sequence
from heapq import nsmallest
from typing import Any

from mini_vllm.core.policy.scheduling_policy import StepView
from mini_vllm.core.request import Request, RequestStatus
from policies.around import Around

READY = (RequestStatus.WAITING, RequestStatus.PREEMPTED)


def decodes(request: Request) -> bool:
    """Return whether a request runs and has no more than its newest token, and what follows it, to compute."""
    return request.status is RequestStatus.RUNNING and request.num_computed_tokens >= request.num_tokens - 1


def worst_first(running: Sequence[Request], rank: Callable[[Request], Any]) -> list[Request]:
    """Return the running requests by descending rank, of equal ones the last in line first."""
    found = list(running[::-1])
    found.sort(key=rank, reverse=True)  # leaves equal ones as they are
    return found


def outranked(step: StepView, rank: Callable[[Request], Any]) -> list[Request]:
    """Return the running requests whose slots waiting ones of smaller rank are to take, the largest rank first."""
    # One that still waits for a grammar or a transfer could not use a slot.
    ready = [request for request in step.waiting if request.status in READY]
    if not ready:
        return []
    num_free = step.max_num_seqs - len(step.running)
    first = nsmallest(step.max_num_seqs, ready, key=rank)[num_free:]
    # A prompt keeps its slot until its next token: if ranks change, two requests could else take turns for ever.
    last = worst_first([request for request in step.running if decodes(request)], rank)
    return [holder for holder, taker in zip(last, first, strict=False) if rank(taker) < rank(holder)]


class JointOrder(Around):
    """Sorts waiting and running requests together by another policy's rank: the first `max_num_seqs` get the slots.

    vLLM issue 6077 proposed it for priorities; its scheduler sorts the waiting queue alone. Here running requests give
    way once their prompts are computed, and when slots are short, not when blocks are: whom that takes, and who is
    served first, the other policy decides.
    """

    def to_preempt(self, step: StepView) -> Sequence[Request]:
        given = list(self.inner.to_preempt(step))
        return [*given, *(request for request in outranked(step, self.rank) if request not in given)]
