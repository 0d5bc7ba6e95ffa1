"""Threads that torch may use, and freed memory that the process keeps between steps."""

import ctypes
import os
import sys
from typing import Any

import torch

SMALL_MODEL_PARAMETERS = 50_000_000
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST_SETTING = 2**30


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


def keep_freed_memory() -> bool:
    """Make the C library keep freed memory for the next step; return whether it could be set.

    Each layer copies K and V of the whole batch out of the cache, megabytes at a time. By default the C library
    returns them to the system at once and maps new pages for the next layer; on the embedded model that took longer
    than the arithmetic. Only glibc has the setting (mallopt); elsewhere nothing changes.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD)
    results = [mallopt(ctypes.c_int(setting), ctypes.c_int(LARGEST_SETTING)) for setting in settings]
    return all(results)
