"""Phase 13: two scheduling policies, and your own for the league."""

from collections.abc import Mapping, Sequence

from mini_vllm.core.request import Request
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy, StepView


class VirtualTokenCounter(SchedulingPolicy):
    """Fair shares for tenants: the tenant served least comes first. (VTC, arXiv 2401.00588.)

    Service is `input_weight` for each computed prompt token and `output_weight` for each output token. A tenant's
    counter grows by its service divided by its weight in `tenant_weights` (1 if it has no weight there).
    """

    def __init__(
        self, input_weight: float = 1.0, output_weight: float = 2.0, tenant_weights: Mapping[str, float] | None = None
    ) -> None:
        """Store all three arguments; every counter starts at 0."""
        raise NotImplementedError("Phase 13, task 1: store the arguments")

    def start_step(self, step: StepView) -> None:
        """Raise the counter of each tenant that is waiting now but was not waiting after the last plan.

        The new value is the lowest counter of the tenants that were already waiting. If no tenant was waiting then, the
        new value is the counter of the tenant whose request left the queue last. A counter that is already higher does
        not change.
        """
        raise NotImplementedError("Phase 13, task 1: start_step")

    def rank(self, request: Request) -> float:
        """Return the counter of the request's tenant."""
        raise NotImplementedError("Phase 13, task 1: rank")

    def scheduled(self, shares: Sequence[tuple[Request, int]]) -> None:
        """Charge tenants for the plan's prompt tokens, and remember which tenants are still waiting.

        The tokens of each share begin at `request.num_computed_tokens`, a counter that does not include them yet.
        """
        raise NotImplementedError("Phase 13, task 1: scheduled")

    def sampled(self, request: Request, num_tokens: int) -> None:
        """Charge the tenant for its output tokens."""
        raise NotImplementedError("Phase 13, task 1: sampled")


class LeastSlackFirst(SchedulingPolicy):
    """The request that can afford to wait least comes first, judged by the three limits in its `service_level`.

    The remaining work is estimated: `seconds_per_token` for each token to compute before the next output token, and
    `seconds_per_step` for each output token.
    """

    def __init__(self, seconds_per_token: float = 0.0001, seconds_per_step: float = 0.01) -> None:
        """Keep both."""
        raise NotImplementedError("Phase 13, task 2: store the arguments")

    def start_step(self, step: StepView) -> None:
        """Record the time, which is also when the first tokens from the previous step arrived."""
        raise NotImplementedError("Phase 13, task 2: start_step")

    def slack(self, request: Request) -> float:
        """Return how many seconds the request can wait before it breaks a promise, or infinity if nothing was promised.

        The slack is the smaller of two differences: the time until the next token is due minus the work before it, and
        the same for the last token (after `max_tokens`). A slack below 0 means that a promise is already broken.
        """
        raise NotImplementedError("Phase 13, task 2: slack")

    def rank(self, request: Request) -> float:
        """Return the slack of a waiting request."""
        raise NotImplementedError("Phase 13, task 2: rank")

    def victims(self, running: list[Request]) -> list[Request]:
        """Return the running requests, most slack first; in a tie, the last admitted comes first."""
        raise NotImplementedError("Phase 13, task 2: victims")

    def sampled(self, request: Request, num_tokens: int) -> None:
        """Record first tokens, and forget finished requests."""
        raise NotImplementedError("Phase 13, task 2: sampled")


class MyPolicy(SchedulingPolicy):
    """First come, first served, until you change it. `mini-vllm league` runs this policy."""
