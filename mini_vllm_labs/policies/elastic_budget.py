"""Policies that change a step's token budget, based on the WAITING queue's length or the time to first token."""

from statistics import fmean

from mini_vllm.core.request import Request
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy, StepView
from mini_vllm_labs.policies.around import Around
from mini_vllm_labs.policies.settings import require_positive

LESS, MORE = 0.8, 1.2


class ElasticBudget(Around):
    """Uses only a share of `max_num_batched_tokens` while requests are waiting, and all of it otherwise.

    When the queue is empty, unfinished prompts are computed in one oversized step. The oversized step does not delay
    any waiting request, but it delays every decode, so step times vary more. Raises `ValueError` unless the share is
    greater than 0 and at most 1.

    The policy is an exercise from a public course on the variance of step times.
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


class BudgetController(Around):
    """Changes a step's token budget every `period` seconds.

    If the period's mean time to first token is more than `target_ttft` seconds, the budget is multiplied by 0.8.
    Otherwise, if fewer tokens were produced per second than in the previous period, the budget is multiplied by 1.2.
    The budget stays between `min_num_batched_tokens` and the engine's `max_num_batched_tokens`. Raises `ValueError`
    unless every parameter is greater than 0.

    This is a rule of thumb from guides to vLLM, which has no such controller. The rule is wrong under overload:
    requests wait for their first token because too little is computed per step, and a smaller budget makes this worse.
    """

    def __init__(
        self,
        inner: SchedulingPolicy | None = None,
        target_ttft: float = 1.0,
        min_num_batched_tokens: int = 64,
        period: float = 1.0,
    ) -> None:
        super().__init__(inner)
        require_positive(target_ttft=target_ttft, min_num_batched_tokens=min_num_batched_tokens, period=period)
        self.target_ttft, self.least, self.period = target_ttft, min_num_batched_tokens, period
        self.budget = self._most = 0.0
        self._begun: list[float] = []
        self._ttfts: list[float] = []
        self._num_tokens, self._throughput, self._since = 0, 0.0, 0.0

    def start_step(self, step: StepView) -> None:
        super().start_step(step)
        if not self._most:
            self.budget = self._most = float(step.max_num_batched_tokens)
            self._since = step.now
        self._ttfts += [step.now - arrival_time for arrival_time in self._begun]
        self._begun.clear()
        if step.now - self._since < self.period:
            return
        throughput = self._num_tokens / (step.now - self._since)
        if self._ttfts and fmean(self._ttfts) > self.target_ttft:
            self.budget = max(self.budget * LESS, min(self.least, self._most))
        elif throughput < self._throughput:
            self.budget = min(self.budget * MORE, self._most)
        self._ttfts.clear()
        self._num_tokens, self._throughput, self._since = 0, throughput, step.now

    def token_limit(self, request: Request, token_budget: int) -> int:
        num_withheld = int(self._most) - int(self.budget)
        return super().token_limit(request, max(0, token_budget - num_withheld))

    def sampled(self, request: Request, num_tokens: int) -> None:
        super().sampled(request, num_tokens)
        self._num_tokens += num_tokens
        if request.num_output_tokens == num_tokens:
            self._begun.append(request.arrival_time)
