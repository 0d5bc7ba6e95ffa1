"""Keeps freed memory in the process for the next step, and limits the number of cached compiled kernels."""

import ctypes
import os
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
LARGEST_SETTING = 2**30
MAX_KERNELS = 128


def keep_freed_memory() -> bool:
    """Make the C library keep freed memory for the next step; return whether it accepted the settings.

    Each layer copies the whole batch's K and V out of the cache, megabytes at a time. By default, the C library returns
    this memory to the system immediately and maps new pages for the next layer. With the embedded model, this took
    longer than the arithmetic. All threads share one arena, because per-thread arenas ignore these settings: an engine
    on a separate thread ran 12% slower. The shared arena only works if this is called before the first thread starts.
    Only glibc has these settings (mallopt). oneDNN compiles a 200 kB kernel for each combination of row count and
    weight shape. Short requests fill all 1,024 entries of oneDNN's cache and of torch's, 400 MB in total; 128 entries
    are just as fast.
    """
    for name in ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"):
        os.environ.setdefault(name, str(MAX_KERNELS))
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    if mallopt is None:
        return False
    settings = {M_MMAP_THRESHOLD: LARGEST_SETTING, M_TRIM_THRESHOLD: LARGEST_SETTING, M_ARENA_MAX: 1}
    results = [mallopt(ctypes.c_int(setting), ctypes.c_int(value)) for setting, value in settings.items()]
    return all(results)


def release_freed_memory() -> None:
    """Return freed memory to the system once, after a model is loaded. Only glibc can do this (malloc_trim)."""
    if sys.platform.startswith("linux") and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)) is not None:
        trim(ctypes.c_size_t(0))
