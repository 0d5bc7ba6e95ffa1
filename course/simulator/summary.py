"""A simulation in a few numbers, when its hundred thousand requests are no longer needed."""

from collections.abc import Iterable
from dataclasses import dataclass

from course.simulator.served import Served, Slo, weighted_mean, weighted_percentiles

PERCENTS = (50, 90, 95, 99)


@dataclass(frozen=True, slots=True)
class Spread:
    """How times are spread, in seconds."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float

    @classmethod
    def of(cls, samples: Iterable[tuple[float, int]]) -> "Spread":
        """Return the spread of (seconds, count) samples."""
        known = list(samples)
        return cls(weighted_mean(known), *weighted_percentiles(known, PERCENTS))


@dataclass(frozen=True, slots=True)
class Summary:
    """What users felt and what the engine did. Seconds of simulated time; `goodput` is requests per second."""

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
    """Return the numbers of a simulation."""
    return Summary(
        time_to_first_token=Spread.of((seconds, 1) for seconds in served.times_to_first_token),
        inter_token_latency=Spread.of(served.gaps),
        e2e_latency=Spread.of((seconds, 1) for seconds in served.e2e_latencies),
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
