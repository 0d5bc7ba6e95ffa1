"""The tokens and times of a served round, and the figures computed from them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from course.workloads.percentiles import percentiles as percentiles_of
from course.workloads.timed_request import TimedRequest


@dataclass(slots=True)
class ServedRound:
    """The tokens of each request, and the seconds since the round began at which each was there.

    Requests keep their order; a slow backend may have served only the first few. `steps` is for our engine only,
    `seconds_by_operator` for a round with a stopwatch on every operator. `all_seconds` are those of all rounds,
    `cpu_seconds` those of all threads together: other work on the machine changes them least.
    """

    token_ids: list[list[int]]
    token_times: list[list[float]]
    seconds: float
    peak_rss_bytes: int = 0
    cpu_seconds: float = 0.0
    steps: list[dict[str, float]] = field(default_factory=list)
    seconds_by_operator: dict[str, float] = field(default_factory=dict)
    all_seconds: list[float] = field(default_factory=list)

    @property
    def num_output_tokens(self) -> int:
        return sum(map(len, self.token_ids))

    @property
    def tokens_per_second(self) -> float:
        return self.num_output_tokens / self.seconds


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Return p50, p90 and p99."""
    return dict(zip(("p50", "p90", "p99"), percentiles_of(values, (50, 90, 99)), strict=True))


def num_equal(one: ServedRound, other: ServedRound) -> tuple[int, int]:
    """Return (how many requests got the same tokens, how many both have served)."""
    pairs = list(zip(one.token_ids, other.token_ids, strict=False))  # a slow backend has fewer
    return sum(mine == theirs for mine, theirs in pairs), len(pairs)


def require_complete(requests: Sequence[TimedRequest], served: ServedRound, name: str) -> None:
    """Raise `RuntimeError` if a backend returned fewer or more tokens than requested: figures would mean nothing."""
    for index, (request, tokens, times) in enumerate(zip(requests, served.token_ids, served.token_times, strict=False)):
        if not len(tokens) == len(times) == request.num_output_tokens:
            raise RuntimeError(
                f"{name} returned {len(tokens)} tokens for request {index} instead of {request.num_output_tokens}"
            )


def summary(requests: Sequence[TimedRequest], served: ServedRound) -> dict[str, Any]:
    """Return the figures of a round. Times are seconds.

    The normalized latency is the time from a request's arrival to its end, divided by its output tokens: a backend
    that delays some requests to answer others quickly does badly by it. (Yu and others, Orca, 2022.)
    """
    pairs = [(request.arrival_time, times) for request, times in zip(requests, served.token_times, strict=False)]
    gaps = [later - earlier for times in served.token_times for earlier, later in pairwise(times)]
    return {
        "num_requests": len(served.token_ids),
        "num_output_tokens": served.num_output_tokens,
        "seconds": served.seconds,
        "all_seconds": served.all_seconds,
        "cpu_seconds": served.cpu_seconds,
        "output_tokens_per_second": served.tokens_per_second,
        "time_to_first_token": percentiles([times[0] - arrival for arrival, times in pairs]),
        "inter_token_latency": percentiles(gaps) if gaps else None,
        "normalized_latency": percentiles([(times[-1] - arrival) / len(times) for arrival, times in pairs]),
        "peak_rss_bytes": served.peak_rss_bytes,
    }
