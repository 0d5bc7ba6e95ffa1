"""Phase 13, reference: fair shares for tenants, and least slack first."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from mini_vllm.core.request import Request
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy, StepView


class VirtualTokenCounter(SchedulingPolicy):
    """Fair shares for tenants: the tenant served least comes first. (VTC, arXiv 2401.00588.)"""

    rank_is_fixed = False

    def __init__(
        self, input_weight: float = 1.0, output_weight: float = 2.0, tenant_weights: Mapping[str, float] | None = None
    ) -> None:
        self.input_weight, self.output_weight, self.tenant_weights = input_weight, output_weight, tenant_weights or {}
        self.counters: defaultdict[str, float] = defaultdict(float)
        self.last_to_leave = ""
        self._queue: Iterable[Request] = ()
        self._backlogged: set[str] = set()

    def start_step(self, step: StepView) -> None:
        """Raise the counter of each tenant that has become active again."""
        self._queue = step.waiting
        for request in sorted(step.waiting, key=lambda request: request.arrival_time):
            if request.tenant not in self._backlogged:
                floor = min(self.counters[tenant] for tenant in self._backlogged or {self.last_to_leave})
                self.counters[request.tenant] = max(self.counters[request.tenant], floor)
                self._backlogged.add(request.tenant)

    def rank(self, request: Request) -> float:
        """Return the counter of the request's tenant."""
        return self.counters[request.tenant]

    def scheduled(self, shares: Sequence[tuple[Request, int]]) -> None:
        """Charge tenants for the plan's prompt tokens, and remember which tenants are still waiting."""
        for request, num_tokens in shares:
            num_prompt_tokens = max(0, min(num_tokens, request.num_prompt_tokens - request.num_computed_tokens))
            self._add_service(request, self.input_weight * num_prompt_tokens)
        if shares and self._backlogged:
            self.last_to_leave = shares[-1][0].tenant  # admitted requests come last
        self._backlogged = {request.tenant for request in self._queue}

    def sampled(self, request: Request, num_tokens: int) -> None:
        """Charge the tenant for its output tokens."""
        self._add_service(request, self.output_weight * num_tokens)

    def _add_service(self, request: Request, service: float) -> None:
        self.counters[request.tenant] += service / self.tenant_weights.get(request.tenant, 1.0)


class LeastSlackFirst(SchedulingPolicy):
    """The request that can afford to wait least comes first, judged by the three limits in its `service_level`."""

    rank_is_fixed = False

    def __init__(self, seconds_per_token: float = 0.0001, seconds_per_step: float = 0.01) -> None:
        self.seconds_per_token, self.seconds_per_step = seconds_per_token, seconds_per_step
        self.now = 0.0
        self._first_token_times: dict[str, float] = {}
        self._have_begun: list[str] = []

    def start_step(self, step: StepView) -> None:
        """Record the time, which is also when the first tokens from the previous step arrived."""
        self.now = step.now
        self._first_token_times |= dict.fromkeys(self._have_begun, step.now)
        self._have_begun.clear()

    def slack(self, request: Request) -> float:
        """Return how many seconds the request can wait before it breaks a promise."""
        level, num_outputs = request.service_level, request.num_output_tokens
        first = self._first_token_times.get(request.request_id, self.now)
        due = first + num_outputs * level.tpot if num_outputs else request.arrival_time + level.ttft
        num_to_compute = request.num_tokens - request.num_computed_tokens
        next_token = self.now + num_to_compute * self.seconds_per_token + self.seconds_per_step
        last_token = next_token + (request.sampling_params.max_tokens - num_outputs - 1) * self.seconds_per_step
        return min(due - next_token, request.arrival_time + level.e2e - last_token)

    def rank(self, request: Request) -> float:
        """Return the slack of a waiting request."""
        return self.slack(request)

    def victims(self, running: list[Request]) -> list[Request]:
        """Return the running requests, most slack first."""
        victims = running[::-1]
        victims.sort(key=self.slack, reverse=True)  # a stable sort: if requests tie, the one admitted last goes first
        return victims

    def sampled(self, request: Request, num_tokens: int) -> None:
        """Record first tokens, and forget finished requests."""
        if request.is_finished:
            self._first_token_times.pop(request.request_id, None)
        elif request.num_output_tokens == num_tokens:
            self._have_begun.append(request.request_id)


class MyPolicy(SchedulingPolicy):
    """First come, first served, until you change it. `mini-vllm league` runs this policy."""
