"""Other choices of whom to preempt when blocks run out; requests are admitted in order of arrival."""

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.policy.scheduling_policy import SchedulingPolicy, StepView
from mini_vllm.core.request import Request
from policies.joint_order import worst_first


class LeastComputedFirst(SchedulingPolicy):
    """Preempts the request with the fewest computed tokens, of equal ones the last to be admitted."""

    def victims(self, running: list[Request]) -> list[Request]:
        return worst_first(running, lambda request: -request.num_computed_tokens)


class CheapestVictim(SchedulingPolicy):
    """Preempts the request with the fewest tokens to compute again per block that it frees.

    vLLM issue 54644 proposes costs for victims. A policy does not see which blocks are shared: here the prefix hit of
    the first admission counts as neither computed nor freed.
    """

    def __init__(self) -> None:
        self.block_size = 1

    def start_step(self, step: StepView) -> None:
        self.block_size = step.block_size

    def cost(self, request: Request) -> float:
        """Return the tokens to compute again per block freed."""
        num_own = max(0, request.num_computed_tokens - max(0, request.num_cached_tokens))
        return num_own / cdiv(num_own, self.block_size) if num_own else 0.0

    def victims(self, running: list[Request]) -> list[Request]:
        # The longest-running one goes last: costs go up and down, and it alone is sure to come to an end.
        return [*sorted(running[:0:-1], key=self.cost), *running[:1]]
