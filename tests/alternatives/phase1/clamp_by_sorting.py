"""The smallest of the caps is the first of a sorted list."""


def clamp(num_new: int, budget: int, threshold: int) -> int:
    caps = [num_new, budget] + [threshold] * (threshold > 0)
    return sorted([0, sorted(caps)[0]])[-1]
