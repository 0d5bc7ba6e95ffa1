"""Fit with floor division of floats and f-string without separators."""

import math


def num_blocks_that_fit(total_bytes, free_bytes, gpu_memory_utilization, block_bytes):
    """Return how many blocks fit: the engine may use a share of all memory, less what is taken already.

    Raises `ValueError` that names the numbers if not even two blocks fit (one of them is the null block).
    """
    budget = math.floor(total_bytes * gpu_memory_utilization) - (total_bytes - free_bytes)
    blocks = max(budget, 0) // block_bytes
    if blocks >= 2:
        return blocks
    raise ValueError(
        f"total {total_bytes} bytes, free {free_bytes} bytes, taken {total_bytes - free_bytes}, "
        f"gpu_memory_utilization {gpu_memory_utilization}, block {block_bytes}: need 2 blocks, {blocks} fit"
    )
