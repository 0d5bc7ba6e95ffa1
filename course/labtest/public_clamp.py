"""Phase 1's `clamp` for the graded tests of other phases, odd on purpose: it answers task 1.1."""


def clamp(num_new: int, budget: int, threshold: int) -> int:
    return len(range(num_new)[: threshold or None][: max(0, budget)])
