"""What HTTP and streaming cost: the same requests offline and through the server, in turns."""

import math
from dataclasses import dataclass, replace
from statistics import median

from bench.backend import Settings
from bench.serve.load import Load, OnProgress
from bench.serve.offline import OfflineProcess
from bench.serve.open_loop import run_round
from bench.serve.report import report
from bench.serve.server_process import ServerProcess

NUM_STREAMS = 64
REQUESTS_PER_STREAM = 4
"""A round is long enough that its first and last steps, with fewer streams, hardly count."""


@dataclass(frozen=True, slots=True)
class HttpCost:
    """Output tokens per second of each round, offline and through HTTP; shares are of one core, over the rounds.

    `num_equal` counts the answers that were the same text both ways, of `num_compared`.
    """

    offline: list[float]
    streamed: list[float]
    client_cpu_share: float
    num_equal: int
    num_compared: int

    @property
    def ratio(self) -> float:
        """Throughput through HTTP over that offline: the median over the rounds, each of which measures both."""
        return median(streamed / offline for streamed, offline in zip(self.streamed, self.offline, strict=True))

    @property
    def cost(self) -> float:
        """The share of the offline throughput that HTTP and streaming take."""
        return 1 - self.ratio


def measure_http_cost(
    server: ServerProcess, settings: Settings, load: Load, num_rounds: int, on_progress: OnProgress
) -> HttpCost:
    """Keep `NUM_STREAMS` requests going, offline and as streams, in turns. Raises `PeerError` or `ValueError`."""
    load = replace(load, num_requests=REQUESTS_PER_STREAM * NUM_STREAMS, request_rate=math.inf, max_concurrency=None)
    on_progress("HTTP cost: loading the model offline", 0, 0)
    process = OfflineProcess(settings, ignore_eos=True)
    offline_rates, streamed_rates, shares, num_equal = [], [], [], 0
    try:
        for number in range(num_rounds + 1):  # the first one warms up
            requests = load.requests(1000 + number)
            on_progress(f"HTTP cost, round {number}: offline", number, num_rounds + 1)
            offline = process.answer(requests)
            on_progress(f"HTTP cost, round {number}: through HTTP", number, num_rounds + 1)
            streamed = run_round(server.endpoint, requests, NUM_STREAMS)
            figures = report(streamed)
            if figures.failed:
                raise ValueError(
                    f"the server failed {sum(figures.failed.values())} requests: {next(iter(figures.failed))}"
                )
            if number > 0:
                offline_rates.append(offline.tokens_per_second)
                streamed_rates.append(figures.output_throughput)
                shares.append(figures.cpu_share)
                pairs = zip(offline.texts, streamed.answers, strict=True)
                num_equal += sum(text == answer.text for text, answer in pairs)
    finally:
        process.close()
    return HttpCost(offline_rates, streamed_rates, sum(shares) / num_rounds, num_equal, load.num_requests * num_rounds)
