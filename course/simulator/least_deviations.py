"""A fit that a few outliers do not mislead and in which nothing is below zero."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NUM_ROUNDS = 30
SMALLEST_RESIDUAL = 1e-3


def least_deviations(parts: Sequence[Sequence[float]]) -> list[float]:
    """Return x >= 0 that makes `parts` times x as near to 1 as possible, where a few outliers do not matter.

    Least squares in rounds: a row that is far off weighs less in the next round.
    """
    import numpy as np

    rows = np.array(parts)
    weights = np.ones(len(rows))
    for _ in range(NUM_ROUNDS):
        found = _non_negative_least_squares(rows * weights[:, None], weights)
        weights = 1 / np.sqrt(np.maximum(np.abs(rows @ found - 1), SMALLEST_RESIDUAL))
    return [float(value) for value in found]


def _non_negative_least_squares(rows: "NDArray[np.float64]", target: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Try all choices of columns, of which there are few, and return the best solution that is nowhere below 0."""
    import numpy as np

    scale = np.abs(rows).max(axis=0)
    scale[scale == 0] = 1.0
    axes, columns_in_axes = np.linalg.qr(rows / scale)  # as many rows as columns, and the same solutions
    target_in_axes = axes.T @ target
    num_columns = rows.shape[1]
    best, best_error = np.zeros(num_columns), np.inf
    for size in range(1, num_columns + 1):
        for columns in itertools.combinations(range(num_columns), size):
            chosen = list(columns)
            part = np.linalg.lstsq(columns_in_axes[:, chosen], target_in_axes, rcond=None)[0]
            error = float(np.square(columns_in_axes[:, chosen] @ part - target_in_axes).sum())
            if (part >= 0).all() and error < best_error * (1 - 1e-9):
                best, best_error = np.zeros(num_columns), error
                best[chosen] = part / scale[chosen]
    return best
