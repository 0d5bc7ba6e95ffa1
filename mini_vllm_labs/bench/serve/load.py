"""The load of one run, a server's results, and the search for its highest sustainable rate."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from mini_vllm_labs.bench.serve.completion import run_round
from mini_vllm_labs.bench.serve.report import Objective, RoundReport, report
from mini_vllm_labs.bench.serve.text_requests import SHAREGPT, Endpoint, TextRequest, text_requests
from mini_vllm_labs.pictures.terminal import progress

MAX_UNFINISHED_SHARE = 0.1
"""A server that leaves more than this unanswered cannot keep up; its late first tokens come only after the probe."""
NUM_WARM_UPS = 8


@dataclass(frozen=True, slots=True)
class Probed:
    """The outcome at one rate: the 99th percentile of time to first token, in seconds, and how many requests failed.

    `left_over` is the share of the requests that piled up, as in a `RoundReport`.
    """

    rate: float
    p99_ttft: float
    num_failed: int
    left_over: float
    holds: bool


@dataclass(slots=True)
class RateSearch:
    """Every rate that was tried, in order, starting with `first`. `bound` is in seconds.

    `highest` is the highest rate that the server sustained, and `lowest_failed` is the lowest that it did not; either
    may be None.
    """

    bound: float
    first: float
    probed: list[Probed] = field(default_factory=list)

    @property
    def highest(self) -> float | None:
        return max((probed.rate for probed in self.probed if probed.holds), default=None)

    @property
    def lowest_failed(self) -> float | None:
        return min((probed.rate for probed in self.probed if not probed.holds), default=None)

    def next_rate(self) -> float:
        """Return the next rate: doubled or halved until one has passed and one has failed, then their midpoint.

        This way, no rate is tried above a failed one or below a sustained one.
        """
        held, failed = self.highest, self.lowest_failed
        if held is None and failed is None:
            return self.first
        if failed is None:
            assert held is not None
            return 2 * held
        return failed / 2 if held is None else math.sqrt(held * failed)  # what matters is the ratio between two rates

    def record(self, rate: float, figures: RoundReport) -> None:
        """Record the result at a rate.

        The rate is sustained if every request was answered, p99 is at most `bound`, and the server kept up.
        """
        num_failed, p99 = sum(figures.failed.values()), figures.ttft.p99
        holds = num_failed == 0 and p99 <= self.bound and figures.left_over <= MAX_UNFINISHED_SHARE
        self.probed.append(Probed(rate, p99, num_failed, figures.left_over, holds))


@dataclass(frozen=True, slots=True)
class ServeLoad:
    """The requests to send, as in `text_requests`; `max_concurrency` and `timeout` (seconds) apply to the client."""

    workload: str = SHAREGPT
    num_requests: int = 100
    request_rate: float = math.inf
    burstiness: float = 1.0
    scale: float = 1.0
    seed: int = 0
    max_concurrency: int | None = None
    timeout: float = 600.0
    objective: Objective | None = None

    def as_record(self) -> dict[str, Any]:
        """Return the load as a JSON object; infinity becomes a string, because JSON cannot express it."""
        return {**asdict(self), "request_rate": "inf" if self.request_rate == math.inf else self.request_rate}

    def requests(self, round_number: int) -> list[TextRequest]:
        """Return the requests of a round. Every round has the same lengths but different words, so no cache helps."""
        return text_requests(
            self.workload, self.num_requests, self.request_rate, self.burstiness, self.scale, self.seed, round_number
        )

    def send(
        self, endpoint: Endpoint, round_number: int, name: str, on_progress: progress.ProgressReport
    ) -> RoundReport:
        """Run a round and return its figures."""
        requests = self.requests(round_number)
        answered = run_round(
            endpoint, requests, self.max_concurrency, self.timeout, lambda done: on_progress(name, done, len(requests))
        )
        figures = report(answered, self.objective)
        waited = f"p99 TTFT {1e3 * figures.ttft.p99:.0f} ms, {figures.output_throughput:,.0f} tokens/s"
        found = f"{name}: {figures.completed} of {len(requests)} answered, {waited}"
        on_progress(name, len(requests), len(requests), found)
        return figures

    def warm_up(self, name: str, endpoint: Endpoint, on_progress: progress.ProgressReport) -> None:
        """Send a few requests that are excluded from the figures, because the first request may load a server's model.

        Raises `ValueError` if none of them is answered, because then there is nothing to measure.
        """
        first = replace(self, num_requests=1, request_rate=math.inf, objective=None)
        more = replace(first, num_requests=NUM_WARM_UPS)
        # Rounds with negative numbers use words that no later round uses, so their cached blocks do not help later
        # rounds.
        reports = [
            load.send(endpoint, -number, f"{name}, warm-up", on_progress) for number, load in ((1, first), (2, more))
        ]
        if not any(each.completed for each in reports):
            reason = next(iter(reports[-1].failed))
            raise ValueError(f"{endpoint.base_url} answered none of {NUM_WARM_UPS} requests; the first error: {reason}")


@dataclass(frozen=True, slots=True)
class Search:
    """How to search for the highest rate: its bound in seconds, and the number and length of the probes.

    A probe lasts `probe_seconds` and has at least `min_requests` requests, because a 99th percentile needs a hundred of
    them.
    """

    bound: float = 1.0
    num_probes: int = 6
    probe_seconds: float = 20.0
    min_requests: int = 100

    def probe(
        self, name: str, endpoint: Endpoint, load: ServeLoad, search: RateSearch, on_progress: progress.ProgressReport
    ) -> None:
        """Try the next rate. Every server receives the same sequence of rounds, with the same words."""
        number, rate = len(search.probed) + 1, search.next_rate()
        count = max(self.min_requests, math.ceil(rate * self.probe_seconds))
        probing = replace(load, request_rate=rate, num_requests=count, max_concurrency=None)
        text = f"{name}, probe {number} of {self.num_probes}: {rate:.2f} requests/s"
        search.record(rate, probing.send(endpoint, number, text, on_progress))


def measure(
    endpoints: Mapping[str, Endpoint], load: ServeLoad, search: Search | None, on_progress: progress.ProgressReport
) -> tuple[dict[str, RoundReport], dict[str, RateSearch]]:
    """Send the load to every server, then search for the highest rate of each, starting from its throughput.

    Servers take turns, round by round, so that the machine's temperature and other work on it affect all of them
    equally. Servers are warmed up first. Returns the reports, and the searches for the servers that answered.
    """
    reports, searches = dict[str, RoundReport](), dict[str, RateSearch]()
    for name, endpoint in endpoints.items():
        reports[name] = load.send(endpoint, 0, f"{name}, the load", on_progress)
        if search is not None and reports[name].completed:
            searches[name] = RateSearch(search.bound, reports[name].request_throughput)
    for _ in range(search.num_probes if search is not None else 0):
        for name, rates in searches.items():
            assert search is not None
            search.probe(name, endpoints[name], load, rates, on_progress)
    return reports, searches
