"""The minimum time that a step could take on this machine: its bytes at the measured read rate, its products at
the measured rate of multiplication, whichever is longer. (Williams and others, 2009.)"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bench.backend import ServedRound
from bench.models import ModelSize, model_size
from mini_vllm.runner.packed_linear import PackedLinear, can_pack

READ_NUMBERS = 64 << 20  # 256 MiB: far more than any cache holds, so memory is read
MATRIX = 1024
NUM_TRIES = 5
LARGE_BATCH = 32  # below it overhead hides what the products cost


@dataclass(frozen=True, slots=True)
class MachineRates:
    """The machine's best rates, with the threads of the benchmark."""

    bytes_per_second: float
    flops_per_second: float


@torch.inference_mode()
def machine_rates(dtype_name: str, num_threads: int) -> MachineRates:
    """Read a buffer too large for the CPU's caches, and multiply matrices that fit, by both available kernels."""
    torch.set_num_threads(num_threads)
    dtype = getattr(torch, dtype_name)
    buffer = torch.ones(READ_NUMBERS)
    layer = nn.Linear(MATRIX, MATRIX, bias=False, dtype=dtype)
    products = [layer, PackedLinear([layer])] if can_pack(torch.device("cpu"), dtype) else [layer]
    inputs = torch.ones(1, MATRIX, MATRIX, dtype=dtype)
    multiplying = min(_best_seconds(partial(product, inputs)) for product in products)  # the faster kernel is the limit
    return MachineRates(READ_NUMBERS * 4 / _best_seconds(buffer.sum), 2 * MATRIX**3 / multiplying)


def _best_seconds(work: Callable[[], object]) -> float:
    seconds = []
    for _ in range(NUM_TRIES):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def minimum_seconds(
    steps: Sequence[Mapping[str, float]], size: ModelSize, number_bytes: int, rates: MachineRates
) -> float:
    """Return the minimum time for these steps (`StepTimes` as dicts): the sum over steps, each at its own limit."""
    total = 0.0
    for step in steps:
        numbers = size.layer_weights + size.head_weights + step["num_context"] * size.kv_numbers_per_token
        flops = (
            2 * size.layer_weights * step["num_tokens"]
            + 2 * size.head_weights * step["num_samples"]
            + 4 * size.attention_width * step["num_attended"]
        )
        total += max(numbers * number_bytes / rates.bytes_per_second, flops / rates.flops_per_second)
    return total


def where_time_goes(steps: Sequence[Mapping[str, float]], min_requests: int = 0) -> dict[str, float]:
    """Return the seconds of steps with at least `min_requests` requests: forward pass, runner, engine, all."""
    chosen = [step for step in steps if step["num_requests"] >= min_requests]
    whole, runner, forward = (
        sum(step[name] for step in chosen) for name in ("step_seconds", "runner_seconds", "forward_seconds")
    )
    return {
        "num_steps": len(chosen),
        "forward_pass": forward,
        "batch_and_sampling": runner - forward,
        "scheduling_and_outputs": whole - runner,
        "all": whole,
    }


def efficiency(served: ServedRound, model: Path, dtype: str, rates: MachineRates) -> dict[str, Any]:
    """Return the share of the roofline, the seconds by component, and the overhead in steps of many requests."""
    number_bytes = torch.empty((), dtype=getattr(torch, dtype)).element_size()
    minimum = minimum_seconds(served.steps, model_size(model), number_bytes, rates)
    many = min(LARGE_BATCH, max(int(step["num_requests"]) for step in served.steps))
    in_large_batches = where_time_goes(served.steps, many)
    everywhere = where_time_goes(served.steps)
    return {
        "read_bytes_per_second": rates.bytes_per_second,
        "flops_per_second": rates.flops_per_second,
        "least_seconds": minimum,
        "share_of_roofline": minimum / everywhere["all"],
        "seconds": everywhere,
        "overhead": {
            "at_least_requests": many,
            "num_steps": in_large_batches["num_steps"],
            "share": 1 - in_large_batches["forward_pass"] / in_large_batches["all"],
        },
    }
