"""Compares vLLM V0's two ways to resume a preempted request: recomputing K and V, or swapping them."""

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from mini_vllm.assembly.lineup import Lineup
from mini_vllm.core.cdiv import cdiv
from mini_vllm_labs.bench.case import Case, Quantity, Side
from mini_vllm_labs.pictures.terminal.options import threads_to_use
from mini_vllm_labs.simulation.cost_model import gpu_cost_model, pairs
from mini_vllm_labs.simulation.gpus import find_gpu
from mini_vllm_labs.simulation.model_shapes import find_model_shape

SIMULATED_LENGTHS = (16, 64, 256, 1024, 4096, 16384, 65536)
MEASURED_LENGTHS = (64, 128, 256, 512, 1024, 1984)
# Assumed, not measured: bytes per second between a GPU and the host, and the seconds it takes to launch a copy. V0
# copied each block of one layer's K or V separately.
HOST_BANDWIDTH = {"L4": 20e9, "A100-80GB": 24e9, "H100": 50e9}
SECONDS_PER_COPY = 5e-6
BLOCK_SIZE = 16
MODEL = "Llama-3.1-8B"
DECODES = (32, 32, 32_000, 32_000, 32)  # requests, tokens, attended tokens, attended pairs, sampled tokens

Seconds = dict[int, tuple[float, float]]  # maps computed tokens to (seconds to recompute, seconds to swap out and in)


def crossing(seconds: Seconds) -> str:
    """Describe the lengths at which the faster method changes."""
    faster = {length: "swapping" if swap < again else "computing again" for length, (again, swap) in seconds.items()}
    changes = [(before, length) for before, length in pairwise(faster) if faster[before] != faster[length]]
    parts = [f"at {length:,} tokens {faster[length]} is faster, at {before:,} not yet" for before, length in changes]
    return "; ".join(parts) or f"{faster[min(faster)]} is always faster"


def swap_cases(lineup: Lineup, num_rounds: int, threads: int | None, *, quick: bool) -> Iterator[Case]:
    """Yield a case for each simulated GPU, then for this machine. Each length is a side. Imports torch."""
    import torch

    for gpu in HOST_BANDWIDTH:
        yield case_of(f"{MODEL} on {gpu}, simulated", simulate(gpu, MODEL))
    torch.set_num_threads(threads_to_use(threads))
    lengths = MEASURED_LENGTHS[: 2 if quick else None]
    yield case_of("the embedded model here, measured", measure(lineup, num_rounds, lengths))


def case_of(where: str, seconds: Seconds) -> Case:
    """Build a case from the ratios of recomputing time to swapping time, with one side per length."""
    sides = {}
    for length, (again, swap) in seconds.items():
        figures = {"computed again": Quantity(again, "s"), "swapped": Quantity(swap, "s")}
        sides[f"{length:,} tokens"] = Side([again / swap], figures)
    return Case(f"{where}: {crossing(seconds)}", "times", "", sides, ["Times as long: computing again over swapping."])


def simulate(gpu: str, model: str) -> Seconds:
    """Compute how much recomputing and swapping add to a step of 32 decodes, from the cost model and bus bandwidth."""
    shape = find_model_shape(model)
    cost, seconds = gpu_cost_model(find_gpu(gpu), shape), Seconds()
    for length in SIMULATED_LENGTHS:
        with_it = map(sum, zip(DECODES, (1, length, length, pairs(0, length), 0), strict=True))
        copies = 2 * shape.num_layers * cdiv(length, BLOCK_SIZE) * SECONDS_PER_COPY
        one_way = length * cost.kv_bytes_per_token / HOST_BANDWIDTH[gpu] + copies
        seconds[length] = cost.step_seconds(*with_it) - cost.step_seconds(*DECODES), 2 * one_way
    return seconds


def measure(lineup: Lineup, num_rounds: int, lengths: Sequence[int] = MEASURED_LENGTHS) -> Seconds:
    """Measure both methods on this machine, using only the embedded model and counting only the fastest round. Imports
    torch.

    The time of a two-token step is subtracted from the recomputation time, because swapping also needs a step with that
    overhead.
    """
    from mini_vllm import LLM, EngineConfig, SamplingParams
    from mini_vllm.config import KVTransferConfig
    from mini_vllm.electives.gates.connector import BlockTransfer, KVConnectorMetadata

    config = EngineConfig(num_gpu_blocks=300, kv_transfer_config=KVTransferConfig("swap"))
    llm = LLM(config=config, lineup=lineup)
    assert llm.engine.transfers is not None
    worker = llm.engine.transfers.worker

    def compute(length: int, number: int) -> None:
        llm.generate([[4 + number, 4 + length % 1000, *[5] * (length - 2)]], SamplingParams(1, 0.0))  # never a hit

    def swap(length: int, number: int) -> None:
        names = [f"{length} {number} {block}".encode() for block in range(length // BLOCK_SIZE)]
        blocks = [BlockTransfer(name, block) for block, name in enumerate(names, start=1)]
        worker.start_step(KVConnectorMetadata(saves={"r": blocks[::-1]}))
        worker.start_step(KVConnectorMetadata(loads={"r": blocks}))

    def fastest(work: Callable[[int, int], None], length: int) -> float:
        seconds = []
        for number in range(num_rounds):
            start = time.perf_counter()
            work(length, number)
            seconds.append(time.perf_counter() - start)
        return min(seconds)

    compute(max(lengths), num_rounds)
    step = fastest(compute, 2)
    return {length: (max(0.0, fastest(compute, length) - step), fastest(swap, length)) for length in lengths}
