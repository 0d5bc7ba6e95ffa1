"""What a scheduling policy decides, and what it sees when it does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mini_vllm.core.interfaces import RequestQueue
from mini_vllm.core.request import Request


@dataclass(frozen=True, slots=True)
class StepView:
    """What a policy sees at the start of a step. `now` is on the clock of `arrival_time`, in seconds.

    `running` is in the order of service, and `waiting` in the queue's order of the step before. `num_free_blocks`
    counts the free queue; `max_num_seqs` and `max_num_batched_tokens` are the engine's settings.
    """

    now: float
    running: Sequence[Request]
    waiting: RequestQueue
    num_free_blocks: int
    block_size: int
    max_num_seqs: int
    max_num_batched_tokens: int


class SchedulingPolicy:
    """Which request comes first, which is preempted, and which gets how much. As it stands: first come, first served.

    A policy overrides what it decides in another way. It never sees block tables or logits, so it cannot change a
    text: only when its tokens are computed. (vLLM: the plug-in proposal in issue 51608; its own scheduler knows
    `fcfs` and `priority`.)
    """

    # Whether a waiting request keeps its rank. If not, the queue is sorted again before every step.
    rank_is_fixed = True
    # Whether the rank depends on `priority`, which may change while a request lives.
    uses_priority = False

    def start_step(self, step: StepView) -> None:
        """Look at the engine before a step is planned."""

    def rank(self, request: Request) -> Any:
        """Return the place of a waiting request, the smallest first; ranks must be comparable.

        Equal ones keep the order of arrival, with preempted requests before them.
        """
        return 0

    def to_preempt(self, step: StepView) -> Sequence[Request]:
        """Return running requests that give up their seats now. None of them is admitted again in this step."""
        return ()

    def serve_order(self, running: list[Request]) -> list[Request]:
        """Return the running requests in the order in which they take their tokens from the budget."""
        return running

    def victims(self, running: list[Request]) -> list[Request]:
        """Return the running requests in the order in which they are preempted when blocks run out.

        One that is left out is preempted for no other request. While ranks change, the head of `running` goes last once
        it has been preempted three times, so that every request comes to its end.
        """
        return running[::-1]

    def token_limit(self, request: Request, token_budget: int) -> int:
        """Return how many of the step's remaining tokens a request may take. With 0 it sits out, and keeps its blocks.

        For a waiting request 0 ends admission for this step.
        """
        return token_budget

    def admits(self, request: Request, running: Sequence[Request]) -> bool:
        """Return whether the first waiting request may be admitted; if not, admission ends for this step."""
        return True

    def scheduled(self, shares: Sequence[tuple[Request, int]]) -> None:
        """The step is planned: each request with its number of new tokens."""

    def sampled(self, request: Request, num_tokens: int) -> None:
        """A request has got output tokens. It may be finished by now."""


@dataclass(frozen=True, slots=True)
class PolicyClasses:
    """Phase 13: how a fresh policy of each kind is made, with its default settings."""

    virtual_token_counter: Callable[[], SchedulingPolicy]
    least_slack_first: Callable[[], SchedulingPolicy]
