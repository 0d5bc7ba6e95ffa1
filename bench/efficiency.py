"""The share of the roofline that the engine reached, and where the rest of the time went. Imports torch."""

from pathlib import Path
from typing import Any

import torch

from bench.models import model_size
from bench.roofline import MachineRates, least_seconds, measure_rates, where_time_goes
from bench.served import Served

LARGE_BATCH = 32


def machine_rates(dtype: str, num_threads: int) -> MachineRates:
    """Measure the machine's read bandwidth and multiplication rate."""
    return measure_rates(getattr(torch, dtype), num_threads)


def efficiency(served: Served, model: Path, dtype: str, rates: MachineRates) -> dict[str, Any]:
    """Return the share of the roofline, the seconds by component, and the overhead in steps of many requests."""
    number_bytes = torch.empty((), dtype=getattr(torch, dtype)).element_size()
    least = least_seconds(served.steps, model_size(model), number_bytes, rates)
    largest = max(int(step["num_requests"]) for step in served.steps)
    many = min(LARGE_BATCH, largest)
    in_large_batches = where_time_goes(served.steps, many)
    everywhere = where_time_goes(served.steps)
    return {
        "read_bytes_per_second": rates.bytes_per_second,
        "flops_per_second": rates.flops_per_second,
        "least_seconds": least,
        "share_of_roofline": least / everywhere["all"],
        "seconds": everywhere,
        "overhead": {
            "at_least_requests": many,
            "num_steps": in_large_batches["num_steps"],
            "share": 1 - in_large_batches["forward_pass"] / in_large_batches["all"],
        },
    }
