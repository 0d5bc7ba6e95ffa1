"""Clamp by counting down a range."""


def clamp(num_new, budget, threshold):
    """Return how many of `num_new` tokens one request may compute in this step.

    At most `threshold` (0 means no such limit), at most what is left of `budget`, never below 0.
    """
    cut = threshold or num_new
    return len(range(num_new)[: max(budget, 0)][: max(cut, 0)])
