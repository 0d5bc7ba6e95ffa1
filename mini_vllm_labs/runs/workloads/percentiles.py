"""Percentiles of measured times, shared by the simulator, the benchmarks and the tables."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, repeat


def percentiles(values: Sequence[float], percents: Sequence[float], counts: Sequence[int] | None = None) -> list[float]:
    """Return, for each of `percents`, the smallest value such that at least that percentage of the values are no
    larger.

    `counts` states how often each value occurs (default: once). Without values, every percentile is 0. Raises
    `ValueError` unless every percentage is greater than 0 and at most 100.
    """
    if not all(0 < percent <= 100 for percent in percents):
        raise ValueError(f"percentages must be greater than 0 and at most 100, got {list(percents)}")
    if not values:
        return [0.0] * len(percents)
    ordered = sorted(zip(values, counts or repeat(1), strict=False))
    reached = list(accumulate(count for _, count in ordered))
    shares = [count / reached[-1] for count in reached]
    return [float(ordered[bisect_left(shares, percent / 100)][0]) for percent in percents]
