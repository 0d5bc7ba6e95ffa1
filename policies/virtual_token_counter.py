"""Fair shares between tenants."""

from collections.abc import Mapping, Sequence

from mini_vllm.core.policy.scheduling_policy import SchedulingPolicy, StepView
from mini_vllm.core.request import Request


class VirtualTokenCounter(SchedulingPolicy):
    """The tenant that has been served least goes first; a prompt token costs 1, an output token 2.

    "Fairness in Serving Large Language Models" (arXiv 2401.00588). Its bound: two tenants that both have requests
    waiting throughout differ in service by at most 2 * max(input_weight * longest prompt, output_weight * tokens in
    the KV cache), divided by their weights. Counters are compared once per step, so one step may admit several
    requests of a tenant. A tenant that comes back is lifted to the least served of those that wait: idle time saves
    nothing up. A prompt is charged when it is admitted for the first time, so that computing it again after a
    preemption is not the tenant's fault.

    Raises `ValueError` for a weight that is not over 0.
    """

    rank_is_fixed = False

    def __init__(
        self, *, weights: Mapping[str, float] | None = None, input_weight: float = 1.0, output_weight: float = 2.0
    ) -> None:
        self.weights = dict(weights or {})
        for weight in (*self.weights.values(), input_weight, output_weight):
            if not weight > 0:
                raise ValueError(f"weights must be over 0, got {weight}")
        self.input_weight, self.output_weight = input_weight, output_weight
        self.counters: dict[str, float] = {}
        self._waiting: set[str] = set()
        self._last_level = 0.0
        self._charged: set[str] = set()

    def start_step(self, step: StepView) -> None:
        waiting = {request.tenant for request in step.waiting}
        if left := self._waiting - waiting:
            self._last_level = max(self.counters[tenant] for tenant in left)
        still = self._waiting & waiting
        for tenant in sorted(waiting - self._waiting):
            # Without others that wait, the level at which the last one left: a newcomer does not start at 0.
            floor = min((self.counters[other] for other in still), default=self._last_level)
            self.counters[tenant] = max(self.counters.get(tenant, 0.0), floor)
            still.add(tenant)
        self._waiting = waiting
        self._charged &= {request.request_id for request in (*step.running, *step.waiting)}

    def rank(self, request: Request) -> float:
        return self.counters.get(request.tenant, 0.0)

    def victims(self, running: list[Request]) -> list[Request]:
        # The last of the best served tenant; equals keep the order from the last one on.
        return sorted(running, key=self.rank)[::-1]

    def scheduled(self, shares: Sequence[tuple[Request, int]]) -> None:
        for request, _ in shares:
            if request.request_id not in self._charged:
                self._charged.add(request.request_id)
                self._charge(request, self.input_weight * request.num_prompt_tokens)

    def sampled(self, request: Request, num_tokens: int) -> None:
        self._charge(request, self.output_weight * num_tokens)

    def _charge(self, request: Request, amount: float) -> None:
        weight = self.weights.get(request.tenant, 1.0)
        self.counters[request.tenant] = self.counters.get(request.tenant, 0.0) + amount / weight
