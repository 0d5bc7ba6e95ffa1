"""A robust linear fit: least absolute deviations with no coefficient below zero."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NUM_ROUNDS = 30
SMALLEST_RESIDUAL = 1e-3
SMALLEST_GAIN = 1e-14
"""Relative to the sum of squares of the target, as an error is: about 50 times the rounding of a double."""


def least_deviations(parts: Sequence[Sequence[float]]) -> list[float]:
    """Return x >= 0 such that `parts` times x is as close to 1 as possible; a few outliers barely count.

    Iteratively reweighted least squares: a row with a large residual weighs less in the next round.
    """
    import numpy as np

    rows = np.array(parts)
    weights = np.ones(len(rows))
    for _ in range(NUM_ROUNDS):
        found = _non_negative_least_squares(rows * weights[:, None], weights)
        weights = 1 / np.sqrt(np.maximum(np.abs(rows @ found - 1), SMALLEST_RESIDUAL))
    return [float(value) for value in found]


def _non_negative_least_squares(rows: "NDArray[np.float64]", target: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Try every subset of the few columns; return the best solution without a negative coefficient.

    A larger subset must improve the error by more than rounding: else the CPU would decide between equal solutions.
    """
    import numpy as np

    scale = np.abs(rows).max(axis=0)
    scale[scale == 0] = 1.0
    axes, columns_in_axes = np.linalg.qr(rows / scale)  # a square problem with the same solutions
    target_in_axes = axes.T @ target
    num_columns = rows.shape[1]
    rounding = SMALLEST_GAIN * float(target @ target)
    best, best_error = np.zeros(num_columns), np.inf
    for size in range(1, num_columns + 1):
        for columns in itertools.combinations(range(num_columns), size):
            chosen = list(columns)
            part = np.linalg.lstsq(columns_in_axes[:, chosen], target_in_axes, rcond=None)[0]
            error = float(np.square(columns_in_axes[:, chosen] @ part - target_in_axes).sum())
            if (part >= 0).all() and error < best_error - rounding:
                best, best_error = np.zeros(num_columns), error
                best[chosen] = part / scale[chosen]
    return best
