"""A description of the machine, without its name."""

import platform
from importlib.metadata import version
from typing import Any

import psutil
import torch

CAPABILITIES = {"AVX512": "AVX-512", "AVX2": "AVX2", "DEFAULT": "no vector extension that torch uses"}


def describe_machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    capability = torch.backends.cpu.get_cpu_capability()
    return {
        "cores": psutil.cpu_count(logical=False) or psutil.cpu_count(),
        "architecture": platform.machine(),
        "vectors": CAPABILITIES.get(capability, capability),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": version("torch"),
        "transformers": version("transformers"),
    }
