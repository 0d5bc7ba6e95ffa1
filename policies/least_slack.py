"""Deadlines: the request with the least time to spare goes first."""

from mini_vllm.core.policy.scheduling_policy import SchedulingPolicy, StepView
from mini_vllm.core.request import Request
from policies.joint_order import worst_first


class LeastSlack(SchedulingPolicy):
    """Waiting requests by slack: the deadline of the next promised token, less the time now and the time it takes.

    Deadlines come from the service level: the first token is due after `ttft`, the nth after that n times `tpot`
    later than it came, the whole answer after `e2e`. A request that promises nothing comes last.
    `seconds_per_prompt_token` and `seconds_per_step` are what a token is guessed to take. A promise that is broken
    already keeps its place in the order of deadlines if `serves_late`; else it comes after those that can still be
    kept. ("SLO-Aware Scheduling for Large Language Model Inferences", arXiv 2504.14966, orders by predicted latency
    against the same three limits.)

    Raises `ValueError` for a negative guess.
    """

    rank_is_fixed = False

    def __init__(
        self, *, seconds_per_prompt_token: float = 5e-5, seconds_per_step: float = 0.01, serves_late: bool = True
    ) -> None:
        if not (seconds_per_prompt_token >= 0 and seconds_per_step >= 0):
            raise ValueError(
                "seconds_per_prompt_token and seconds_per_step must be at least 0, got "
                f"{seconds_per_prompt_token} and {seconds_per_step}"
            )
        self.seconds_per_prompt_token = seconds_per_prompt_token
        self.seconds_per_step = seconds_per_step
        self.serves_late = serves_late
        self._now = 0.0
        self._answering_since: dict[str, float] = {}

    def start_step(self, step: StepView) -> None:
        self._now = step.now
        living = {request.request_id for request in (*step.running, *step.waiting)}
        self._answering_since = {name: time for name, time in self._answering_since.items() if name in living}

    def slack(self, request: Request) -> float:
        """Return the seconds that a request can still wait without breaking a promise; negative if one is broken."""
        level, arrived = request.service_level, request.arrival_time
        num_left = max(1, request.sampling_params.max_tokens - request.num_output_tokens)
        to_compute = (request.num_tokens - request.num_computed_tokens) * self.seconds_per_prompt_token
        next_due = arrived + level.ttft
        if request.num_output_tokens:
            next_due = self._answering_since.get(request.request_id, arrived) + request.num_output_tokens * level.tpot
        last_due = arrived + level.e2e - (num_left - 1) * self.seconds_per_step
        return min(next_due, last_due) - self._now - to_compute - self.seconds_per_step

    def rank(self, request: Request) -> tuple[bool, float]:
        slack = self.slack(request)
        return slack < 0 and not self.serves_late, slack

    def victims(self, running: list[Request]) -> list[Request]:
        return worst_first(running, self.rank)

    def sampled(self, request: Request, num_tokens: int) -> None:
        self._answering_since.setdefault(request.request_id, self._now)
