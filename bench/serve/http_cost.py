"""The cost of HTTP and streaming: the same requests offline and through the server, in turns."""

import math
from dataclasses import dataclass, field, replace
from statistics import median

from bench.backend import BackendSettings
from bench.serve.load import Load
from bench.serve.offline import Offline, OfflineProcess
from bench.serve.open_loop import Round, run_round
from bench.serve.report import report
from bench.serve.server_process import MeasuredServer
from course.terminal import progress

NUM_STREAMS = 64
"""How many requests are computed at once, offline and through HTTP: the engine's `max_num_seqs`."""
MIN_REQUESTS, MAX_REQUESTS, ROUND_SECONDS = 4 * NUM_STREAMS, 12 * NUM_STREAMS, 10.0
"""The size of a round. All its requests are sent at once, so that a queue keeps `NUM_STREAMS` running even if the
client is late. In a long round the client's own time counts little; more requests would be too many open files."""


@dataclass(slots=True)
class HttpCost:
    """Output tokens per second of each round, offline and through HTTP, and the client's shares of one core.

    `num_equal` counts the answers that were the same text both ways, of `num_compared`.
    """

    offline: list[float] = field(default_factory=list)
    streamed: list[float] = field(default_factory=list)
    client_cpu_shares: list[float] = field(default_factory=list)
    num_equal: int = 0
    num_compared: int = 0

    def note(self, offline: Offline, streamed: Round) -> None:
        """Add a round. Raises `ValueError` if a request failed: the two would not have done the same work."""
        figures = report(streamed)
        if figures.failed:
            raise ValueError(f"the server failed {sum(figures.failed.values())} requests: {next(iter(figures.failed))}")
        self.offline.append(offline.tokens_per_second)
        self.streamed.append(figures.output_throughput)
        self.client_cpu_shares.append(figures.cpu_share)
        pairs = zip(offline.texts, streamed.answers, strict=True)
        self.num_equal += sum(text == answer.text for text, answer in pairs)
        self.num_compared += len(offline.texts)

    @property
    def ratio(self) -> float:
        """Throughput through HTTP over that offline: the median over the rounds, each of which measures both."""
        return median(streamed / offline for streamed, offline in zip(self.streamed, self.offline, strict=True))

    @property
    def cost(self) -> float:
        """The share of the offline throughput that HTTP and streaming take."""
        return 1 - self.ratio


def measure_http_cost(
    server: MeasuredServer, settings: BackendSettings, load: Load, num_rounds: int, on_progress: progress.Report
) -> HttpCost:
    """Answer the same requests offline and as streams, in turns. Raises `PeerError` or `ValueError`."""
    load = replace(load, num_requests=MIN_REQUESTS, request_rate=math.inf, max_concurrency=None)
    on_progress("HTTP cost: loading the model offline", 0, 0)
    process = OfflineProcess(settings, ignore_eos=True)
    cost = HttpCost()
    try:
        for number in range(num_rounds + 1):  # the first one warms up
            requests = load.requests(1000 + number)
            on_progress(f"HTTP cost, round {number}: offline", number, num_rounds + 1)
            offline = process.answer(requests)
            on_progress(f"HTTP cost, round {number}: through HTTP", number, num_rounds + 1)
            streamed = run_round(server.endpoint, requests)
            if number > 0:
                cost.note(offline, streamed)
            else:
                in_a_round = round(ROUND_SECONDS * len(requests) / offline.seconds)
                load = replace(load, num_requests=min(max(MIN_REQUESTS, in_a_round), MAX_REQUESTS))
    finally:
        process.close()
    return cost
