"""What a simulated run has to be asked while it runs: service by tenant, tokens computed twice, times of tokens."""

from array import array
from collections import defaultdict
from collections.abc import Callable

from course.simulator.service_differences import ServiceDifferences
from mini_vllm.core.request import Request
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.step import SchedulerOutput

INPUT_WEIGHT, OUTPUT_WEIGHT = 1, 2  # as in VTC, arXiv 2401.00588
WINDOW_SECONDS = 2.0


class Accounts:
    """The books of one run. `clock` is the simulation's, in seconds.

    `service` is each tenant's in weighted tokens: a prompt token counts once, however often it is computed.
    `num_recomputed_tokens` counts the other times. `windows` have, for each window of two seconds, the services of the
    tenants that had requests waiting all through it, if there were two or more.
    """

    def __init__(self, scheduler: Scheduler, clock: Callable[[], float], num_tenants: int) -> None:
        self.scheduler = scheduler
        self.clock = clock
        self.num_tenants = num_tenants
        self.num_recomputed_tokens = 0
        self.token_times: defaultdict[str, array[float]] = defaultdict(lambda: array("d"))
        self.windows: list[list[float]] = []
        self.service: defaultdict[str, float] = defaultdict(float)
        self._computed: dict[str, int] = {}
        self._differences = ServiceDifferences()
        self._window_end = WINDOW_SECONDS
        self._in_window: defaultdict[str, float] = defaultdict(float)
        self._waited_throughout: set[str] | None = None

    def on_step(self, step: SchedulerOutput, sampling: dict[str, Request]) -> None:
        """Enter one step, after its time has passed and before its tokens are counted."""
        now, requests = self.clock(), self.scheduler.requests
        for request_id in sampling:
            self.token_times[request_id].append(now)
            self._serve(requests[request_id].tenant, OUTPUT_WEIGHT)
        for request_id, num_tokens in step.num_scheduled_tokens.items():
            request = requests[request_id]
            end, before = request.num_computed_tokens, self._computed.get(request_id, 0)
            self.num_recomputed_tokens += max(0, min(end, before) - (end - num_tokens))
            self._computed[request_id] = max(end, before)
            num_prompt_tokens = min(end, request.num_prompt_tokens) - max(end - num_tokens, before)
            if num_prompt_tokens > 0:
                self._serve(request.tenant, INPUT_WEIGHT * num_prompt_tokens)
        self._compare(now)

    def _serve(self, tenant: str, amount: float) -> None:
        self.service[tenant] += amount
        self._in_window[tenant] += amount

    def _compare(self, now: float) -> None:
        waiting: set[str] = set()
        for request in self.scheduler.waiting:
            waiting.add(request.tenant)
            if len(waiting) == self.num_tenants:
                break
        self._differences.enter(self.service, waiting)
        self._waited_throughout = waiting if self._waited_throughout is None else self._waited_throughout & waiting
        if now >= self._window_end:
            if len(self._waited_throughout) > 1:
                self.windows.append([self._in_window[tenant] for tenant in sorted(self._waited_throughout)])
            self._window_end = now + WINDOW_SECONDS
            self._in_window.clear()
            self._waited_throughout = None

    @property
    def max_service_difference(self) -> float:
        """The largest difference between the service of two tenants over a time in which both waited throughout."""
        return max(self._differences.largest.values(), default=0.0)

    def jain_index(self) -> float:
        """Return the mean of Jain's index over the windows, 1 if all tenants that waited were served alike."""
        indices = [jain_index(window) for window in self.windows]
        return sum(indices) / len(indices) if indices else 1.0


def jain_index(shares: list[float]) -> float:
    """Return (sum x)^2 / (n sum x^2): 1 for equal shares, 1/n if one has all. (Jain, Chiu and Hawe 1984.)"""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0
