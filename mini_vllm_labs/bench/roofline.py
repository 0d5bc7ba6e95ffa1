"""Computes a step's minimum time on this machine (Williams et al., 2009).

The minimum is the longer of two times: the time to read the step's bytes and the time to compute its products, both at
measured rates.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from mini_vllm.runner.packed_linear import PackedLinear, can_pack
from mini_vllm_labs.bench.backend import ServedRound
from mini_vllm_labs.bench.models import ModelSize, model_size

READ_NUMBERS = 64 << 20  # 256 MiB: far larger than any cache, so reads go to memory
MATRIX = 1024
NUM_TRIES = 5
COMPONENTS = ("forward pass", "batch and sampling", "scheduling and outputs")
LARGE_BATCH = 32  # in smaller batches, overhead hides the cost of the products


@dataclass(frozen=True, slots=True)
class MachineRates:
    """The machine's best rates, using the benchmark's number of threads."""

    bytes_per_second: float
    flops_per_second: float


@torch.inference_mode()
def machine_rates(dtype_name: str, num_threads: int) -> MachineRates:
    """Measure two rates: reading a buffer larger than the CPU's caches, and multiplying matrices that fit into them."""
    torch.set_num_threads(num_threads)
    dtype = getattr(torch, dtype_name)
    buffer = torch.ones(READ_NUMBERS)
    layer = nn.Linear(MATRIX, MATRIX, bias=False, dtype=dtype)
    products = [layer, PackedLinear([layer])] if can_pack(torch.device("cpu"), dtype) else [layer]
    inputs = torch.ones(1, MATRIX, MATRIX, dtype=dtype)
    # the faster kernel sets the limit
    multiplying = min(_best_seconds(partial(product, inputs)) for product in products)
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
    """Add up the minimum time of each of these steps (`StepTimes` as dicts), limited either by reading or by
    computing."""
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
    """Split the time of steps with at least `min_requests` requests into forward pass, runner and engine."""
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


class Explaining:
    """Describes where mini-vLLM spends its time in a round; `found` stores each workload's figures.

    The figures are the share of the roofline, each component's share, and the overhead in steps with many requests.
    """

    def __init__(self, model: Path, dtype: str, num_threads: int) -> None:
        self.dtype, self.num_threads, self.size = dtype, num_threads, model_size(model)
        self.number_bytes = torch.empty((), dtype=getattr(torch, dtype)).element_size()
        self.found: dict[str, Any] = {}

    @cached_property
    def rates(self) -> MachineRates:
        """The machine's rates, measured on first use while the backends wait."""
        return machine_rates(self.dtype, self.num_threads)

    def __call__(self, title: str, served: ServedRound) -> list[str]:
        everywhere = where_time_goes(served.steps)
        many = min(LARGE_BATCH, max(int(step["num_requests"]) for step in served.steps))
        in_large = where_time_goes(served.steps, many)
        overhead = 1 - in_large["forward_pass"] / in_large["all"]
        share = minimum_seconds(served.steps, self.size, self.number_bytes, self.rates) / everywhere["all"]
        parts = {words: everywhere[words.replace(" ", "_")] / everywhere["all"] for words in COMPONENTS}
        self.found[title] = {"overhead": overhead, "share_of_roofline": share, **parts}
        rates = f"{self.rates.bytes_per_second / 1e9:.1f} GB/s, {self.rates.flops_per_second / 1e9:.0f} GFLOP/s"
        return [
            f"Our engine's time: {', '.join(f'{part:.1%} {words}' for words, part in parts.items())}. Our "
            "engine reached "
            f"{share:.0%} of the roofline ({rates}). In steps with {many} or more requests, {overhead:.1%} of the "
            "time is spent outside the forward pass."
        ]
