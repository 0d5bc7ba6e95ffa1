"""Computes a run's figures, and collects service per tenant, recomputed tokens, and times during the run."""

import math
from array import array
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mini_vllm.core.request import Request
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.core.step import SchedulerOutput
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest
from mini_vllm_labs.simulation.served import Served
from mini_vllm_labs.simulation.service_differences import ServiceDifferences
from mini_vllm_labs.simulation.summary import Spread

INPUT_WEIGHT, OUTPUT_WEIGHT = 1, 2  # defined as in VTC, arXiv 2401.00588
WINDOW_SECONDS = 2.0
# the pace that readers expect in a class that sets no limits: Andes, arXiv 2404.16283
READING_TTFT, READING_TPOT = 1.0, 0.1


class Accounts:
    """Collects the accounts of one run. `clock` is the simulation's clock, in seconds.

    `service` is each tenant's service in weighted tokens: a prompt token counts once, however often it is computed.
    `num_recomputed_tokens` counts all repeated computations. `windows` contains, for each window of two seconds, the
    services of the tenants that had waiting requests throughout, if there were at least two.
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
        """Record one step, after its time has passed and before its tokens are counted."""
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
        """The largest difference between two tenants' services over a period in which both were always waiting."""
        return max(self._differences.largest.values(), default=0.0)

    def jain_index(self) -> float:
        """Return the mean of Jain's index over the windows; 1 means that all waiting tenants got equal service."""
        indices = [jain_index(window) for window in self.windows]
        return sum(indices) / len(indices) if indices else 1.0


def jain_index(shares: list[float]) -> float:
    """Return (sum x)^2 / (n sum x^2), which is 1 for equal shares and 1/n if one tenant gets everything. (Jain, Chiu
    and Hawe 1984.)"""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0


@dataclass(frozen=True, slots=True)
class ClassFigures:
    """Goodput of one class: requests and output tokens per second, counting only requests that met every limit."""

    share_good: float
    requests_per_second: float
    tokens_per_second: float


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a policy's run. Times are in seconds, and service is in weighted tokens; `qoe` is a mean from 0 to
    1."""

    classes: dict[str, ClassFigures]
    ttft: Spread
    tpot: Spread
    e2e: Spread
    share_good: float
    tokens_per_second: float
    jain_index: float
    max_service_difference: float
    qoe: float
    num_preemptions: int
    num_recomputed_tokens: int
    hit_rate: float
    longest_wait: float


def figures_of(served: Served, accounts: Accounts) -> Figures:
    """Return the figures of a finished run."""
    ttft, tpot, e2e = served.times_to_first_token, served.mean_inter_token_latencies, served.e2e_latencies
    good = kept_promises(served)
    qualities = [
        quality_of_experience(request, accounts.token_times[str(number)])
        for number, request in enumerate(served.requests)
    ]
    return Figures(
        classes=class_figures(served),
        ttft=Spread.of([(seconds, 1) for seconds in ttft]),
        tpot=Spread.of([(seconds, 1) for seconds in tpot]),
        e2e=Spread.of([(seconds, 1) for seconds in e2e]),
        share_good=sum(good) / len(good),
        tokens_per_second=served.output_tokens_per_second,
        jain_index=accounts.jain_index(),
        max_service_difference=accounts.max_service_difference,
        qoe=sum(qualities) / len(qualities),
        num_preemptions=served.num_preemptions,
        num_recomputed_tokens=accounts.num_recomputed_tokens,
        hit_rate=served.hit_rate,
        longest_wait=max(ttft),
    )


def kept_promises(served: Served) -> list[bool]:
    """Return, for each request, whether it met every limit of its class."""
    times = zip(served.times_to_first_token, served.mean_inter_token_latencies, served.e2e_latencies, strict=True)
    levels = (request.service_level for request in served.requests)
    return [
        first <= level.ttft and between <= level.tpot and whole <= level.e2e
        for (first, between, whole), level in zip(times, levels, strict=True)
    ]


def class_figures(served: Served) -> dict[str, ClassFigures]:
    """Return each class's figures, keyed by name in alphabetical order."""
    by_class: dict[str, list[tuple[TimedRequest, bool]]] = {}
    for request, kept in zip(served.requests, kept_promises(served), strict=True):
        by_class.setdefault(request.service_level.name, []).append((request, kept))
    found = {}
    for name, members in sorted(by_class.items()):
        good = [request.num_output_tokens for request, kept in members if kept]
        found[name] = ClassFigures(len(good) / len(members), len(good) / served.seconds, sum(good) / served.seconds)
    return found


def quality_of_experience(request: TimedRequest, token_times: Sequence[float]) -> float:
    """Return how closely a reader's text flow matched the expected flow; 1 means that no token was late.

    (Andes, arXiv 2404.16283.)

    A reader reads a token once it has arrived and the previous token has been read. The result compares the areas under
    the expected and the actual curves of tokens over time, up to the moment when both are complete.
    """
    level = request.service_level
    first = next((limit for limit in (level.ttft, level.e2e) if limit < math.inf), READING_TTFT)
    pace = level.tpot if level.tpot < math.inf else READING_TPOT
    expected = [request.arrival_time + first + number * pace for number in range(len(token_times))]
    read: list[float] = []
    for due, time in zip(expected, token_times, strict=True):
        read.append(max(time, due) if not read else max(time, due, read[-1] + pace))
    end = max(read[-1], expected[-1]) + pace
    return sum(end - time for time in read) / sum(end - time for time in expected)
