"""VTC: fair shares for tenants by virtual token counters."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from mini_vllm.core.policy.scheduling_policy import SchedulingPolicy, StepView
from mini_vllm.core.request import Request
from policies.settings import require_positive


class VirtualTokenCounter(SchedulingPolicy):
    """The tenant that has been served least comes first; each tenant's requests in order of arrival.

    A counter grows by `input_weight` for each prompt token at the first admission and by `output_weight` for each
    sampled token, both divided by the tenant's weight (1 unless in `tenant_weights`). The counter of a tenant that had
    nothing waiting is lifted to the least one of those that wait. Raises `ValueError` for a weight that is not over 0.

    VTC ("Fairness in Serving Large Language Models", arXiv 2401.00588, algorithm 2): while two tenants both wait, their
    services differ by at most 2 max(input_weight L, output_weight M), with L the longest prompt and M the tokens of a
    batch. Its prediction of lengths is not here. A preempted request is not charged twice for its prompt.
    """

    rank_is_fixed = False

    def __init__(
        self, input_weight: float = 1.0, output_weight: float = 2.0, tenant_weights: Mapping[str, float] | None = None
    ) -> None:
        self.tenant_weights = dict(tenant_weights or {})
        require_positive(input_weight=input_weight, output_weight=output_weight)
        require_positive(**{f"the weight of tenant {name!r}": weight for name, weight in self.tenant_weights.items()})
        self.input_weight, self.output_weight = input_weight, output_weight
        self.counters: defaultdict[str, float] = defaultdict(float)
        self._queue: Iterable[Request] = ()
        self._waiting: set[str] = set()
        self._last_to_leave = ""
        self._ranks: dict[str, float] = {}

    def start_step(self, step: StepView) -> None:
        self._queue = step.waiting
        in_order = sorted(step.waiting, key=lambda request: request.arrival_time)
        for request in in_order:
            if request.tenant not in self._waiting:
                least = min(self.counters[tenant] for tenant in self._waiting or {self._last_to_leave})
                self.counters[request.tenant] = max(self.counters[request.tenant], least)
                self._waiting.add(request.tenant)
        # The paper charges a request before it chooses the next one: each stands as if those before it were admitted.
        self._ranks, after = {}, dict(self.counters)
        for request in in_order:
            self._ranks[request.request_id] = after[request.tenant]
            after[request.tenant] += self._input_service(request)

    def rank(self, request: Request) -> float:
        return self._ranks.get(request.request_id, self.counters[request.tenant])

    def scheduled(self, shares: Sequence[tuple[Request, int]]) -> None:
        for request, _ in shares:
            self.counters[request.tenant] += self._input_service(request)
        now_waiting = {request.tenant for request in self._queue}
        for request, _ in shares:  # what has been admitted stands last
            if request.tenant in self._waiting - now_waiting:
                self._last_to_leave = request.tenant
        self._waiting = now_waiting

    def sampled(self, request: Request, num_tokens: int) -> None:
        self.counters[request.tenant] += self.output_weight * num_tokens / self.tenant_weights.get(request.tenant, 1.0)

    def _input_service(self, request: Request) -> float:
        if request.num_cached_tokens >= 0:  # admitted before
            return 0.0
        return self.input_weight * request.num_prompt_tokens / self.tenant_weights.get(request.tenant, 1.0)
