"""Computes the latencies of a served round as figures of a case."""

from collections.abc import Sequence
from itertools import pairwise

from mini_vllm_labs.bench.backend import ServedRound
from mini_vllm_labs.bench.case import Quantity
from mini_vllm_labs.runs.workloads.percentiles import percentiles
from mini_vllm_labs.runs.workloads.timed_request import TimedRequest


def figures_of(requests: Sequence[TimedRequest], served: ServedRound) -> dict[str, Quantity]:
    """Return medians and 99th percentiles of three latencies, and CPU seconds and peak memory if they are known.

    "per token" is the time from a request's arrival until it finishes, divided by its output tokens. This figure
    penalises a backend that delays some requests to serve others quickly. (It is the normalized latency of Yu et al.,
    Orca, 2022.)
    """
    pairs = [(request.arrival_time, times) for request, times in zip(requests, served.token_times, strict=False)]
    latencies = {
        "first token": [times[0] - arrival for arrival, times in pairs],
        "between tokens": [later - earlier for times in served.token_times for earlier, later in pairwise(times)],
        "per token": [(times[-1] - arrival) / len(times) for arrival, times in pairs],
    }
    figures = {
        f"{words} p{percent}": Quantity(seconds, "s")
        for words, values in latencies.items()
        if values
        for percent, seconds in zip((50, 99), percentiles(values, (50, 99)), strict=True)
    }
    used = {"CPU": Quantity(served.cpu_seconds, "s"), "peak": Quantity(served.peak_rss_bytes / 2**20, "MiB")}
    return figures | (used if served.peak_rss_bytes else {})
