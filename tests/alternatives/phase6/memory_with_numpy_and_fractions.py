"""Bytes as a numpy product, the share as an exact fraction, and floor division by hand."""

import math
from fractions import Fraction

import numpy as np


def kv_block_bytes(num_layers: int, block_size: int, num_kv_heads: int, head_dim: int, bytes_per_number: int) -> int:
    return np.prod([2, num_layers, block_size, num_kv_heads, head_dim, bytes_per_number], dtype=np.int64)


def num_blocks_that_fit(total_bytes: int, free_bytes: int, gpu_memory_utilization: float, block_bytes: int) -> int:
    allowed = Fraction(str(gpu_memory_utilization)) * int(total_bytes) - (int(total_bytes) - int(free_bytes))
    count = math.floor(allowed / int(block_bytes))
    if count <= 1:
        raise ValueError(
            f"{total_bytes} bytes in all, {free_bytes} free, {gpu_memory_utilization} to be used: "
            f"{count} blocks of {block_bytes} bytes"
        )
    return np.int64(count)
