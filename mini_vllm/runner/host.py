"""Threads that torch may use."""

import os
from typing import Any

import torch

SMALL_MODEL_PARAMETERS = 50_000_000


def use_one_thread_if_small(model: Any) -> None:
    """Run a small model on one thread, unless OMP_NUM_THREADS is set.

    Its matrices are too small to split: on a busy machine, threads waiting for each other made it 100 times slower.
    """
    num_parameters = sum(weight.numel() for weight in model.parameters())
    if num_parameters < SMALL_MODEL_PARAMETERS and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)


def share_threads(size: int) -> int:
    """Limit this process to 1 / `size` of torch's threads, because `size` processes share the CPU; return it."""
    num_threads = max(1, torch.get_num_threads() // size)
    torch.set_num_threads(num_threads)
    return num_threads
