"""A step's budget that grows when WAITING is empty."""

from mini_vllm.core.policy.scheduling_policy import SchedulingPolicy, StepView
from mini_vllm.core.request import Request
from policies.around import Around
from policies.settings import require_positive


class ElasticBudget(Around):
    """Gives a step a share of the engine's `max_num_batched_tokens` while requests wait, and all of it when none does.

    When the queue is empty, prompts under way finish in one oversized step. No waiting request is delayed, but each
    decoding one is: the times of steps vary more. Raises `ValueError` for a share that is not over 0 and at most 1.

    An exercise of a public course, which asks for the variance of the step's time.
    """

    def __init__(self, inner: SchedulingPolicy | None = None, share: float = 0.25) -> None:
        super().__init__(inner)
        require_positive(share=share)
        if share > 1:
            raise ValueError(f"share must be at most 1, got {share!r}")
        self.share = share
        self._num_withheld = 0

    def start_step(self, step: StepView) -> None:
        super().start_step(step)
        most = step.max_num_batched_tokens
        self._num_withheld = most - max(1, int(most * self.share)) if len(step.waiting) else 0

    def token_limit(self, request: Request, token_budget: int) -> int:
        return super().token_limit(request, max(0, token_budget - self._num_withheld))
