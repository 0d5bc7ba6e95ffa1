"""Summarises a simulation in a few numbers, without its requests."""

from collections.abc import Sequence
from dataclasses import dataclass

from mini_vllm_labs.runs.workloads.percentiles import percentiles
from mini_vllm_labs.simulation.served import Served, Slo

PERCENTS = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True)
class Spread:
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float

    @classmethod
    def of(cls, samples: Sequence[tuple[float, int]]) -> "Spread":
        """Return the spread of (seconds, count) samples."""
        values, counts = [seconds for seconds, _ in samples], [count for _, count in samples]
        mean = sum(seconds * count for seconds, count in samples) / (sum(counts) or 1)
        return cls(mean, *percentiles(values, PERCENTS, counts))


@dataclass(frozen=True, slots=True)
class Summary:
    """Latencies and engine counters. Times are in simulated seconds; `goodput` is in requests per second."""

    time_to_first_token: Spread
    inter_token_latency: Spread
    e2e_latency: Spread
    simulated_seconds: float
    output_tokens_per_second: float
    goodput: float
    share_good: float
    num_preemptions: int
    hit_rate: float
    most_running: int
    peak_context_tokens: int
    num_steps: int
    num_computed_tokens: int


def summarize(served: Served, slo: Slo) -> Summary:
    return Summary(
        time_to_first_token=Spread.of([(seconds, 1) for seconds in served.times_to_first_token]),
        inter_token_latency=Spread.of(served.gaps),
        e2e_latency=Spread.of([(seconds, 1) for seconds in served.e2e_latencies]),
        simulated_seconds=served.seconds,
        output_tokens_per_second=served.output_tokens_per_second,
        goodput=served.goodput(slo),
        share_good=served.share_good(slo),
        num_preemptions=served.num_preemptions,
        hit_rate=served.hit_rate,
        most_running=served.most_running,
        peak_context_tokens=served.peak_context_tokens,
        num_steps=served.num_steps,
        num_computed_tokens=served.num_computed_tokens,
    )
