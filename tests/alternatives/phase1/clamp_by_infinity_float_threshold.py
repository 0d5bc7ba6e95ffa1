"""Clamp by infinity float threshold."""

import math


def clamp(num_new: int, budget: int, threshold: int) -> int:
    """Return how many of `num_new` tokens one request may compute in this step.

    At most `threshold` (0 means no such limit), at most what is left of `budget`, never below 0.
    """
    limit = threshold if threshold else math.inf
    return int(max(min(num_new, budget, limit), 0))
