"""Policies that add one rule to any other: which of decodes and prompts go first, and static batches as before Orca."""

from collections.abc import Sequence
from typing import Any

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.request import Request, RequestStatus
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy, StepView


class Around(SchedulingPolicy):
    """Decides as `inner` does, by default first come, first served."""

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
    """Return whether a request runs and has no more than its newest token, and what follows it, to compute."""
    return request.status is RequestStatus.RUNNING and request.num_computed_tokens >= request.num_tokens - 1


class DecodeFirst(Around):
    """Serves decodes before chunks of prompts, so that a prompt never delays a decode for want of budget.

    The order of "Taming Throughput-Latency Tradeoff in LLM Inference with Sarathi-Serve" (arXiv 2403.02310); its choice
    of the budget is not here.
    """

    def serve_order(self, running: list[Request]) -> list[Request]:
        return sorted(super().serve_order(running), key=lambda request: not decodes(request))


class PrefillFirst(Around):
    """V0's way: while a prompt is unfinished or the first waiting request can be admitted, decodes sit out.

    A request is admitted when the blocks of all its tokens are free. (vLLM 0.5: `Scheduler._schedule_default`, from
    "Efficient Memory Management for Large Language Model Serving with PagedAttention", arXiv 2309.06180.) Prompts may
    still be split into chunks here.
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


class StaticBatches(Around):
    """Admits requests only when none was running at the start of the step: a batch ends with its longest output.

    What "Orca: A Distributed Serving System for Transformer-Based Generative Models" (OSDI 2022) replaced by
    iteration-level scheduling. Requests of a batch leave it when they finish, but their seats stay empty.
    """

    is_open = False

    def start_step(self, step: StepView) -> None:
        self.is_open = not step.running
        super().start_step(step)

    def admits(self, request: Request, running: Sequence[Request]) -> bool:
        return self.is_open and super().admits(request, running)
