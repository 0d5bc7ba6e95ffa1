"""The tokens and times of a served round, and the figures computed from them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from course.workloads.percentiles import percentiles as percentiles_of
from course.workloads.timed_request import TimedRequest

PERCENTILES = (50, 90, 99)


@dataclass(slots=True)
class Served:
    """Tokens and the seconds, since the round began, at which each of them was there. Requests keep their order.

    A backend that serves only the first few requests has as many entries. `steps` is for our engine only,
    `seconds_by_operator` for a round with a stopwatch on every operator.
    """

    token_ids: list[list[int]]
    token_times: list[list[float]]
    seconds: float
    peak_rss_bytes: int = 0
    steps: list[dict[str, float]] = field(default_factory=list)
    seconds_by_operator: dict[str, float] = field(default_factory=dict)

    @property
    def num_output_tokens(self) -> int:
        return sum(map(len, self.token_ids))

    @property
    def tokens_per_second(self) -> float:
        return self.num_output_tokens / self.seconds


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the smallest value that `percent` of the values do not exceed. Raises `ValueError` without values."""
    if not values:
        raise ValueError("there is no percentile of no values")
    return percentiles_of(values, [percent])[0]


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """Return p50, p90 and p99."""
    return {
        f"p{percent}": value for percent, value in zip(PERCENTILES, percentiles_of(values, PERCENTILES), strict=True)
    }


def times_to_first_token(requests: Sequence[TimedRequest], served: Served) -> list[float]:
    """Return for each request the seconds from its arrival to its first token."""
    return [times[0] - request.arrival_time for request, times in zip(requests, served.token_times, strict=False)]


def inter_token_latencies(served: Served) -> list[float]:
    """Return the seconds between any two tokens that followed each other in a request."""
    return [later - earlier for times in served.token_times for earlier, later in pairwise(times)]


def normalized_latencies(requests: Sequence[TimedRequest], served: Served) -> list[float]:
    """Return for each request the seconds from its arrival to its end, divided by its output tokens.

    A backend that delays some requests to answer others quickly does badly by this figure. (Yu and others, Orca, 2022.)
    """
    pairs = zip(requests, served.token_times, strict=False)
    return [(times[-1] - request.arrival_time) / len(times) for request, times in pairs]


def num_equal(one: Served, other: Served) -> tuple[int, int]:
    """Return (how many requests got the same tokens, how many both have served)."""
    pairs = list(zip(one.token_ids, other.token_ids, strict=False))
    return sum(mine == theirs for mine, theirs in pairs), len(pairs)


def require_complete(requests: Sequence[TimedRequest], served: Served, name: str) -> None:
    """Raise `RuntimeError` if a backend returned fewer or more tokens than requested: figures would mean nothing."""
    for index, (request, tokens, times) in enumerate(zip(requests, served.token_ids, served.token_times, strict=False)):
        if not len(tokens) == len(times) == request.num_output_tokens:
            raise RuntimeError(
                f"{name} returned {len(tokens)} tokens for request {index} instead of {request.num_output_tokens}"
            )


def summary(requests: Sequence[TimedRequest], served: Served) -> dict[str, Any]:
    """Return the figures of a round. Times are seconds."""
    latencies = inter_token_latencies(served)
    return {
        "num_requests": len(served.token_ids),
        "num_output_tokens": served.num_output_tokens,
        "seconds": served.seconds,
        "output_tokens_per_second": served.tokens_per_second,
        "time_to_first_token": percentiles(times_to_first_token(requests, served)),
        "inter_token_latency": percentiles(latencies) if latencies else None,
        "normalized_latency": percentiles(normalized_latencies(requests, served)),
        "peak_rss_bytes": served.peak_rss_bytes,
    }
