"""A preempted request comes back: are its K and V computed again, or were they copied out? (Both ways of V0.)"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from course.simulator.cost_model import gpu_cost_model, pairs
from course.simulator.gpus import find_gpu
from course.simulator.model_shapes import find_model_shape
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.core.cdiv import cdiv

SIMULATED_LENGTHS = (16, 64, 256, 1024, 4096, 16384, 65536)
MEASURED_LENGTHS = (64, 128, 256, 512, 1024, 1984)
# Assumed, not measured: bytes per second between a GPU and the host, and the seconds to launch one copy of a block of
# one layer's K or V, as V0 copied them.
HOST_BANDWIDTH = {"L4": 20e9, "A100-80GB": 24e9, "H100": 50e9}
SECONDS_PER_COPY = 5e-6
BLOCK_SIZE = 16
DECODES = (32, 32, 32_000, 32_000, 32)  # requests, tokens, tokens and pairs that they attend to, tokens sampled


@dataclass(frozen=True, slots=True)
class Comparison:
    """Seconds by the tokens that were computed: (again, out and in)."""

    name: str
    seconds: dict[int, tuple[float, float]]

    @property
    def crossing(self) -> str:
        """Say from which length on which of the two is faster."""
        is_faster = {length: swap < again for length, (again, swap) in self.seconds.items()}
        lengths = list(is_faster)
        changes = [length for before, length in pairwise(lengths) if is_faster[before] != is_faster[length]]
        if not changes:
            return "swapping is always faster" if is_faster[lengths[0]] else "computing again is always faster"
        words = {True: "swapping", False: "computing again"}
        return ", ".join(f"from {length:,} tokens on {words[is_faster[length]]} is faster" for length in changes)


def simulate(gpu: str, model: str, lengths: Sequence[int] = SIMULATED_LENGTHS) -> Comparison:
    """Compare by a GPU's cost model and the bandwidth of its bus: what either adds to a step of 32 decodes."""
    shape = find_model_shape(model)
    cost, seconds = gpu_cost_model(find_gpu(gpu), shape), {}
    for length in lengths:
        alone = cost.step_seconds(*DECODES)
        again = (
            cost.step_seconds(*map(sum, zip(DECODES, (1, length, length, pairs(0, length), 0), strict=True))) - alone
        )
        copies = 2 * shape.num_layers * cdiv(length, BLOCK_SIZE) * SECONDS_PER_COPY
        one_way = length * cost.kv_bytes_per_token / HOST_BANDWIDTH[gpu] + copies
        seconds[length] = again, 2 * one_way
    return Comparison(f"{model} on {gpu}, simulated", seconds)


def measure(lineup: Lineup, num_rounds: int, lengths: Sequence[int] = MEASURED_LENGTHS) -> Comparison:
    """Compare on this machine, with the embedded model; the fastest round counts. Imports torch."""
    from mini_vllm import LLM, EngineConfig, SamplingParams
    from mini_vllm.config import KVTransferConfig
    from mini_vllm.core.gates.connector import BlockTransfer, KVConnectorMetadata

    config = EngineConfig(num_gpu_blocks=300, kv_transfer_config=KVTransferConfig("swap"))
    engine, seconds = LLM(config=config, lineup=lineup).engine, dict[int, tuple[float, float]]()
    assert engine.transfers is not None
    worker = engine.transfers.worker

    def compute(length: int, number: int) -> None:
        engine.add_request("r", [4 + number, *[5] * (length - 1)], SamplingParams(1, 0.0))
        while engine.has_unfinished_requests():
            engine.step()

    def swap(length: int, number: int) -> None:
        blocks = [
            BlockTransfer(f"{length} {number} {block}".encode(), block) for block in range(1, length // BLOCK_SIZE + 1)
        ]
        worker.start_step(KVConnectorMetadata(saves={"r": blocks[::-1]}))
        worker.start_step(KVConnectorMetadata(loads={"r": blocks}))

    compute(max(lengths), num_rounds)
    for length in lengths:
        rounds = [(_timed(compute, length, number), _timed(swap, length, number)) for number in range(num_rounds)]
        again, out_and_in = map(min, zip(*rounds, strict=True))
        seconds[length] = again, out_and_in
    return Comparison("the embedded model here, measured", seconds)


def _timed(work: Callable[[int, int], None], length: int, number: int) -> float:
    start = time.perf_counter()
    work(length, number)
    return time.perf_counter() - start
