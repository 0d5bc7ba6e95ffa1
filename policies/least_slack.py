"""Least slack first: deadlines of the next tokens."""

from mini_vllm.core.policy.scheduling_policy import SchedulingPolicy, StepView
from mini_vllm.core.request import Request
from policies.joint_order import worst_first
from policies.predictors import Predict, oracle
from policies.settings import require_positive


class LeastSlack(SchedulingPolicy):
    """The request that can wait for the shortest time comes first; the one that can wait longest is preempted.

    Due are the first token (`ttft`), each next one (`tpot` after the first) and the last one (`e2e`) of its
    `service_level`; slack is what is left until then, less the time that the work takes: `seconds_per_token` for each
    token to compute and `seconds_per_step` for each output token. `predict` tells how many those are (None:
    `max_tokens`). Requests without limits come last, in order of arrival. Raises `ValueError` for seconds that are not
    over 0.

    Least laxity first is of real-time systems; SLOs-Serve ("Optimized Serving of Multi-SLO LLMs", arXiv 2504.08784)
    plans for the same three limits. Here nothing is planned ahead, and a request that is late stays first.
    """

    def __init__(
        self, seconds_per_token: float = 0.0001, seconds_per_step: float = 0.01, predict: Predict | None = None
    ) -> None:
        require_positive(seconds_per_token=seconds_per_token, seconds_per_step=seconds_per_step)
        self.seconds_per_token, self.seconds_per_step = seconds_per_token, seconds_per_step
        self.predict = predict or oracle({})
        self.now = 0.0
        self._first_token_times: dict[str, float] = {}

    def start_step(self, step: StepView) -> None:
        self.now, known = step.now, self._first_token_times
        live = (*step.running, *step.waiting)
        self._first_token_times = {r.request_id: known.get(r.request_id, step.now) for r in live if r.num_output_tokens}

    def slack(self, request: Request) -> float:
        """Return for how many seconds the request can wait before it breaks a promise."""
        return self.rank(request) - self.now

    def rank(self, request: Request) -> float:
        # All slacks shrink alike, so their order is that of the latest times to start. A running request is taken to
        # start anew, as it would after preemption: two that could preempt each other in turn would never end.
        level, num_output_tokens = request.service_level, request.num_output_tokens
        first = self._first_token_times.get(request.request_id, self.now)
        due = first + num_output_tokens * level.tpot if num_output_tokens else request.arrival_time + level.ttft
        num_left = max(1.0, self.predict(request) - num_output_tokens)
        last_due = request.arrival_time + level.e2e - (num_left - 1) * self.seconds_per_step
        return min(due, last_due) - request.num_tokens * self.seconds_per_token - self.seconds_per_step

    def serve_order(self, running: list[Request]) -> list[Request]:
        return sorted(running, key=self.rank)

    def victims(self, running: list[Request]) -> list[Request]:
        return worst_first(running, self.rank)
