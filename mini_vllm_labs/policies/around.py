"""Policies that add one rule to any other policy: decodes first, prompts first, or static batches as used before
Orca."""

from collections.abc import Sequence
from typing import Any

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy, StepView


class Around(SchedulingPolicy):
    """Makes the same decisions as `inner`, by default first come, first served."""

    def __init__(self, inner: SchedulingPolicy | None = None) -> None:
        self.inner = inner or SchedulingPolicy()
        self.rank_is_fixed = self.inner.rank_is_fixed
        self.uses_priority = self.inner.uses_priority

    def start_step(self, step: StepView) -> None:
        self.inner.start_step(step)

    def rank(self, request: Request) -> Any:
        return self.inner.rank(request)

    def to_preempt(self, step: StepView) -> Sequence[Request]:
        return self.inner.to_preempt(step)

    def serve_order(self, running: list[Request]) -> list[Request]:
        return self.inner.serve_order(running)

    def victims(self, running: list[Request]) -> list[Request]:
        return self.inner.victims(running)

    def token_limit(self, request: Request, token_budget: int) -> int:
        return self.inner.token_limit(request, token_budget)

    def admits(self, request: Request, running: Sequence[Request]) -> bool:
        return self.inner.admits(request, running)

    def scheduled(self, shares: Sequence[tuple[Request, int]]) -> None:
        self.inner.scheduled(shares)

    def sampled(self, request: Request, num_tokens: int) -> None:
        self.inner.sampled(request, num_tokens)


def decodes(request: Request) -> bool:
    """Return whether a running request has only its newest token and any drafts left to compute."""
    return request.status is RequestStatus.RUNNING and request.num_computed_tokens >= request.num_tokens - 1


class DecodeFirst(Around):
    """Serves decodes before prompt chunks, so that a prompt never takes a decode's budget.

    The order comes from "Taming Throughput-Latency Tradeoff in LLM Inference with Sarathi-Serve" (arXiv 2403.02310),
    but its method of choosing the budget is not implemented.
    """

    def serve_order(self, running: list[Request]) -> list[Request]:
        return sorted(super().serve_order(running), key=lambda request: not decodes(request))


class PrefillFirst(Around):
    """Pauses decodes while a prompt is unfinished or the first waiting request can be admitted, as in vLLM V0.

    A request is admitted when enough blocks for all its tokens are free. Unlike in V0, prompts may be split into
    chunks. (vLLM 0.5: `Scheduler._schedule_default`, from "Efficient Memory Management for Large Language Model
    Serving with PagedAttention", arXiv 2309.06180.)
    """

    def __init__(self, inner: SchedulingPolicy | None = None) -> None:
        super().__init__(inner)
        self.block_size, self.num_free_blocks, self.has_prompt = 1, 0, False

    def start_step(self, step: StepView) -> None:
        super().start_step(step)
        self.block_size, self.num_free_blocks = step.block_size, step.num_free_blocks
        first = min(step.waiting, key=self.rank, default=None)
        enters = first is not None and len(step.running) < step.max_num_seqs and self._fits(first)
        self.has_prompt = enters or not all(map(decodes, step.running))

    def token_limit(self, request: Request, token_budget: int) -> int:
        if self.has_prompt and decodes(request):
            return 0
        return super().token_limit(request, token_budget)

    def admits(self, request: Request, running: Sequence[Request]) -> bool:
        if not self._fits(request) or not super().admits(request, running):
            return False
        self.num_free_blocks -= cdiv(request.num_tokens, self.block_size)
        return True

    def _fits(self, request: Request) -> bool:
        return cdiv(request.num_tokens, self.block_size) <= self.num_free_blocks


class StaticBatching(Around):
    """Admits requests only into an empty engine at the start of a step. A batch therefore lasts as long as its longest
    output.

    "Orca: A Distributed Serving System for Transformer-Based Generative Models" (OSDI 2022) replaced this with
    iteration-level scheduling. Requests leave a batch when they finish, but their slots stay empty until the batch
    ends.
    """

    is_open = False

    def start_step(self, step: StepView) -> None:
        self.is_open = not step.running
        super().start_step(step)

    def admits(self, request: Request, running: Sequence[Request]) -> bool:
        return self.is_open and super().admits(request, running)
