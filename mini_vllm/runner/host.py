"""What torch may take of the computer: threads, and memory that it keeps between steps."""

import ctypes
import os
import sys
from typing import Any

import torch

SMALL_MODEL_PARAMETERS = 50_000_000
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST_SETTING = 2**30


def use_one_thread_if_small(model: Any) -> None:
    """Compute a small model on one thread, unless OMP_NUM_THREADS says otherwise.

    Its matrices are too small to share: on a busy machine threads that wait for each other made it a
    hundred times slower.
    """
    num_parameters = sum(weight.numel() for weight in model.parameters())
    if num_parameters < SMALL_MODEL_PARAMETERS and "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(1)


def share_threads(size: int) -> int:
    """Leave this process its part of torch's threads, because `size` processes compute here; return how many."""
    num_threads = max(1, torch.get_num_threads() // size)
    torch.set_num_threads(num_threads)
    return num_threads


def keep_freed_memory() -> bool:
    """Let the process keep what it frees, so that the next step finds it again; return whether that was possible.

    Each layer copies K and V of the whole batch out of the cache, megabytes at a time, and the C library would
    give them back to the system at once and fetch new, empty pages for the next layer. On the embedded model that
    took longer than computing. Only glibc can be told (mallopt); elsewhere nothing changes.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = (M_MMAP_THRESHOLD, M_TRIM_THRESHOLD)
    answers = [mallopt(ctypes.c_int(setting), ctypes.c_int(LARGEST_SETTING)) for setting in settings]
    return all(answers)
