"""Policies that choose different victims when blocks run out; requests are admitted in order of arrival."""

from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.request import Request
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy, StepView
from mini_vllm_labs.policies.joint_order import worst_first


class LeastComputedFirst(SchedulingPolicy):
    """Preempts the request with the fewest computed tokens; in a tie, the request admitted last. (vLLM issue 54644.)"""

    def victims(self, running: list[Request]) -> list[Request]:
        return worst_first(running, lambda request: -request.num_computed_tokens)


class CheapestVictim(SchedulingPolicy):
    """Preempts the request with the fewest tokens to recompute per freed block, unless it is nearly done.

    The score was proposed in vLLM's pull request 56897. A policy does not see which blocks are shared, so the prefix
    hit at first admission counts as neither computed nor freed.
    """

    def __init__(self) -> None:
        self.block_size = 1

    def start_step(self, step: StepView) -> None:
        self.block_size = step.block_size

    def cost(self, request: Request) -> float:
        """Return the number of tokens to recompute per freed block, divided by the remaining share of the output."""
        num_own = max(0, request.num_computed_tokens - max(0, request.num_cached_tokens))
        share_left = 1 - request.num_output_tokens / request.sampling_params.max_tokens
        return num_own / cdiv(num_own, self.block_size) / share_left if num_own else 0.0

    def victims(self, running: list[Request]) -> list[Request]:
        # The longest-running request goes last: costs fluctuate, and this way at least one request is sure to finish.
        return [*sorted(running[:0:-1], key=self.cost), *running[:1]]
