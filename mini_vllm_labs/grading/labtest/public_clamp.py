"""Phase 1's `clamp` for the graded tests of other phases."""

from mini_vllm.core.interfaces import Clamp


def make_clamp() -> Clamp:
    """Make a new `clamp` each time, so that no name in this file is an answer to task 1.1."""
    return lambda num_new, budget, threshold: len(range(num_new)[: threshold or None][: max(0, budget)])
