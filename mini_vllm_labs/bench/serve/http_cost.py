"""Measures the cost of HTTP and streaming: serves the same requests offline and through the server, in turn."""

import math
import os
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import cache
from multiprocessing import get_context
from typing import TYPE_CHECKING

from mini_vllm_labs.bench.backend import BackendSettings
from mini_vllm_labs.bench.case import Case, Measured, Quantity, in_turns
from mini_vllm_labs.bench.peer_process import PeerError
from mini_vllm_labs.bench.serve.completion import run_round
from mini_vllm_labs.bench.serve.load import ServeLoad
from mini_vllm_labs.bench.serve.report import report
from mini_vllm_labs.bench.serve.text_requests import Endpoint, TextRequest
from mini_vllm_labs.pictures.terminal import progress

if TYPE_CHECKING:
    from mini_vllm.llm import LLM

NUM_STREAMS = 64  # how many requests are computed at once, offline and over HTTP: the engine's `max_num_seqs`
MIN_REQUESTS, MAX_REQUESTS, ROUND_SECONDS = 4 * NUM_STREAMS, 12 * NUM_STREAMS, 10.0
"""The size of a round. All its requests are sent at once, so that a queue keeps `NUM_STREAMS` running even if the
client is late. In a long round the client's own time counts little; more requests would be too many open files."""
OFFLINE, STREAMED = "LLM.generate, offline", "through HTTP, streamed"


def http_case(
    endpoint: Endpoint,
    settings: BackendSettings,
    load: ServeLoad,
    num_rounds: int,
    on_progress: progress.ProgressReport,
) -> Case:
    """Answer the same requests offline and as streams, in turn. Raises `PeerError` or `ValueError`."""
    title = f"{NUM_STREAMS} streams computed at once"
    # The offline engine runs in a separate process, which uses no CPU while the server is measured.
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        ways = BothWays(endpoint, settings, load, process)
        runs = {OFFLINE: ways.offline, STREAMED: ways.streamed}
        rounds = in_turns(runs, num_rounds, num_warm_ups=1, report=on_progress, title=title)
    case = Case.of(title, "tokens/s", OFFLINE, rounds)
    case.notes = [f"HTTP and streaming cost {1 - case.ratio(STREAMED):.1%} of the throughput."]
    return case


class BothWays:
    """Rounds that serve the same requests both ways. The warm-up determines the number of requests in all later
    rounds."""

    def __init__(
        self, endpoint: Endpoint, settings: BackendSettings, load: ServeLoad, process: ProcessPoolExecutor
    ) -> None:
        self.endpoint, self.settings, self.process = endpoint, settings, process
        self.load = replace(load, num_requests=MIN_REQUESTS, request_rate=math.inf, max_concurrency=None)

    def offline(self, number: int) -> Measured:
        """Answer with `LLM.generate`. Raises `PeerError` if its process exits."""
        requests = self.load.requests(1001 + number)
        try:
            texts, num_tokens, seconds = self.process.submit(answer_offline, self.settings, requests).result()
        except BrokenProcessPool as error:
            raise PeerError("the offline engine exited early") from error
        return Measured(num_tokens / seconds, answers=texts)

    def streamed(self, number: int) -> Measured:
        """Answer through HTTP.

        Raises `ValueError` if a request failed, because then the two methods did not do the same work.
        """
        requests = self.load.requests(1001 + number)
        answered = run_round(self.endpoint, requests)
        figures = report(answered)
        if figures.failed:
            raise ValueError(
                f"{sum(figures.failed.values())} requests to the server failed: {next(iter(figures.failed))}"
            )
        if number < 0:
            in_a_round = round(ROUND_SECONDS * len(requests) / answered.seconds)
            self.load = replace(self.load, num_requests=min(max(MIN_REQUESTS, in_a_round), MAX_REQUESTS))
        client = {"the client's share of a core": Quantity(figures.cpu_share, "share")}
        return Measured(figures.output_throughput, client, [answer.text for answer in answered.answers])


def answer_offline(settings: BackendSettings, requests: Sequence[TextRequest]) -> tuple[list[str], int, float]:
    """Answer all requests at once, each to its full length; return texts, output tokens and seconds."""
    from mini_vllm.sampling_params import SamplingParams

    llm = open_llm(settings)
    params = [SamplingParams(max_tokens=request.max_tokens, ignore_eos=True) for request in requests]
    start = time.perf_counter()
    outputs = [output.outputs[0] for output in llm.generate([request.prompt for request in requests], params)]
    seconds = time.perf_counter() - start
    return [one.text for one in outputs], sum(len(one.token_ids) for one in outputs), seconds


@cache
def open_llm(settings: BackendSettings) -> "LLM":
    """Load the model, once per process."""
    os.environ.update(settings.environment())  # set before torch is imported, as in a server process

    from mini_vllm.assembly.lineup import parse_lineup
    from mini_vllm.llm import LLM

    return LLM(settings.model or None, settings.engine_config(), parse_lineup(settings.lineup))
