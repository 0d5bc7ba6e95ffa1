"""The base class of scheduling policies, and the view of a step that they receive."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mini_vllm.core.interfaces import RequestQueue
from mini_vllm.core.request import Request


@dataclass(frozen=True, slots=True)
class StepView:
    """A policy's view at the start of a step. `now` is in seconds, measured by the same clock as `arrival_time`.

    `running` is in order of service, and `waiting` is in the queue's order from the previous step. `num_free_blocks` is
    the length of the free queue. `max_num_seqs` and `max_num_batched_tokens` are the engine's settings.
    """

    now: float
    running: Sequence[Request]
    waiting: RequestQueue
    num_free_blocks: int
    block_size: int
    max_num_seqs: int
    max_num_batched_tokens: int


class SchedulingPolicy:
    """Decides the order of requests, the victims, and how many tokens each request gets.

    The base class orders requests first come, first served.

    A policy overrides only the decisions that differ. A policy never sees block tables or logits, so it can change when
    a text's tokens are computed, but not the text. (vLLM: the plug-in proposal in issue 51608; vLLM's scheduler
    supports `fcfs` and `priority`.)
    """

    # Whether a request's rank stays the same while it waits. If not, the queue is sorted again before every step.
    rank_is_fixed = True
    # Whether the rank depends on `priority`, which may change during a request's lifetime.
    uses_priority = False

    def start_step(self, step: StepView) -> None:
        """Inspect the engine before a step is planned."""

    def rank(self, request: Request) -> Any:
        """Return a waiting request's rank; the smallest rank comes first, and ranks must be comparable.

        Requests of equal rank stay in order of arrival, with preempted requests first.
        """
        return 0

    def to_preempt(self, step: StepView) -> Sequence[Request]:
        """Return the running requests to preempt now. These requests are not admitted again in this step."""
        return ()

    def serve_order(self, running: list[Request]) -> list[Request]:
        """Return the running requests in the order in which they receive tokens from the budget."""
        return running

    def victims(self, running: list[Request]) -> list[Request]:
        """Return the running requests in the order in which they are preempted when blocks run out.

        A request missing from the list is never preempted to make room for a different one. If ranks keep changing, the
        head of `running` becomes the last choice of victim once it has been preempted three times, so that every
        request can finish.
        """
        return running[::-1]

    def token_limit(self, request: Request, token_budget: int) -> int:
        """Return how many of the step's remaining tokens a request may use.

        A running request that gets 0 skips the step and keeps its blocks. For a waiting request, 0 ends admission.
        """
        return token_budget

    def admits(self, request: Request, running: Sequence[Request]) -> bool:
        """Return whether the first waiting request may be admitted; if not, admission ends for this step."""
        return True

    def scheduled(self, shares: Sequence[tuple[Request, int]]) -> None:
        """Receive the planned step: each request and its number of new tokens."""

    def sampled(self, request: Request, num_tokens: int) -> None:
        """Receive the number of a request's new output tokens. The request may already be finished."""


@dataclass(frozen=True, slots=True)
class PolicyClasses:
    """Phase 13: one function per kind of policy, each returning a new policy with its default settings."""

    virtual_token_counter: Callable[[], SchedulingPolicy]
    least_slack_first: Callable[[], SchedulingPolicy]
