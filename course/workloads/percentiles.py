"""Percentiles of measured times, the same for the simulator, the benchmarks and the tables."""

from collections.abc import Sequence


def percentiles(values: Sequence[float], percents: Sequence[float], counts: Sequence[int] | None = None) -> list[float]:
    """Return for each of `percents` the smallest value that at least this share of the values does not exceed.

    `counts` is how often each value occurs, once by default. Without values every percentile is 0.
    Raises `ValueError` for a percentage that is not over 0 and at most 100.
    """
    import numpy as np  # here: most commands that import this module draw no percentile

    if not all(0 < percent <= 100 for percent in percents):
        raise ValueError(f"percents must be over 0 and at most 100, got {list(percents)}")
    if not values:
        return [0.0] * len(percents)
    # Weights in every case: without them numpy rounds, and the 7th percentile of 100 values is the 8th of them.
    weights = np.ones(len(values)) if counts is None else np.asarray(counts)
    shares = [percent / 100 for percent in percents]
    return [float(value) for value in np.quantile(values, shares, weights=weights, method="inverted_cdf")]
