"""The cost of HTTP and streaming: the same requests offline and through the server, in turns."""

import math
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import cache
from multiprocessing import get_context
from statistics import median
from typing import TYPE_CHECKING

from mini_vllm_labs.bench.backend import BackendSettings
from mini_vllm_labs.bench.peer_process import PeerError
from mini_vllm_labs.bench.serve.completion import Round, run_round
from mini_vllm_labs.bench.serve.load import Load
from mini_vllm_labs.bench.serve.report import report
from mini_vllm_labs.bench.serve.server_process import MeasuredServer
from mini_vllm_labs.bench.serve.text_requests import TextRequest
from mini_vllm_labs.pictures.terminal import progress

if TYPE_CHECKING:
    from mini_vllm.llm import LLM

NUM_STREAMS = 64  # how many requests are computed at once, offline and through HTTP: the engine's `max_num_seqs`
MIN_REQUESTS, MAX_REQUESTS, ROUND_SECONDS = 4 * NUM_STREAMS, 12 * NUM_STREAMS, 10.0
"""The size of a round. All its requests are sent at once, so that a queue keeps `NUM_STREAMS` running even if the
client is late. In a long round the client's own time counts little; more requests would be too many open files."""


@dataclass(frozen=True, slots=True)
class Offline:
    """The texts in order, the number of output tokens of all, and the seconds that they took."""

    texts: list[str]
    num_output_tokens: int
    seconds: float


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
        self.offline.append(offline.num_output_tokens / offline.seconds)
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
    server: MeasuredServer, settings: BackendSettings, load: Load, num_rounds: int, on_progress: progress.ProgressReport
) -> HttpCost:
    """Answer the same requests offline and as streams, in turns. Raises `PeerError` or `ValueError`."""
    load = replace(load, num_requests=MIN_REQUESTS, request_rate=math.inf, max_concurrency=None)
    cost = HttpCost()
    # The offline engine has its own process, which uses no CPU while the server is measured.
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        for number in range(num_rounds + 1):  # the first one warms up
            requests = load.requests(1000 + number)
            on_progress(f"HTTP cost, round {number}: offline", number, num_rounds + 1)
            try:
                offline = process.submit(answer_offline, settings, requests).result()
            except BrokenProcessPool as error:
                raise PeerError("the offline engine exited early") from error
            on_progress(f"HTTP cost, round {number}: through HTTP", number, num_rounds + 1)
            streamed = run_round(server.endpoint, requests)
            if number > 0:
                cost.note(offline, streamed)
                rates = f"{cost.offline[-1]:,.0f} tokens/s offline, {cost.streamed[-1]:,.0f} through HTTP"
                on_progress(
                    "HTTP cost", number + 1, num_rounds + 1, f"HTTP cost, round {number} of {num_rounds}: {rates}"
                )
            else:
                in_a_round = round(ROUND_SECONDS * len(requests) / offline.seconds)
                load = replace(load, num_requests=min(max(MIN_REQUESTS, in_a_round), MAX_REQUESTS))
    return cost


def answer_offline(settings: BackendSettings, requests: Sequence[TextRequest]) -> Offline:
    """Answer all requests at once, each to its full length, by `LLM.generate`."""
    from mini_vllm.sampling_params import SamplingParams

    llm = open_llm(settings)
    params = [SamplingParams(max_tokens=request.max_tokens, ignore_eos=True) for request in requests]
    start = time.perf_counter()
    outputs = [output.outputs[0] for output in llm.generate([request.prompt for request in requests], params)]
    seconds = time.perf_counter() - start
    return Offline([one.text for one in outputs], sum(len(one.token_ids) for one in outputs), seconds)


@cache
def open_llm(settings: BackendSettings) -> "LLM":
    """Load the model, once in a process."""
    os.environ.update(settings.environment())  # before torch is imported, as in a server

    from mini_vllm.assembly.lineup import parse_lineup
    from mini_vllm.llm import LLM

    return LLM(settings.model or None, settings.engine_config(), parse_lineup(settings.lineup))
