"""Computes the limits of one setup from the simulator's roofline."""

from dataclasses import dataclass

from mini_vllm_labs.simulation import cost_model, roofline
from mini_vllm_labs.simulation.cost_model import StepCounts, pairs
from mini_vllm_labs.simulation.gpus import Gpu, find_gpu
from mini_vllm_labs.simulation.model_shapes import ModelShape, find_model_shape


@dataclass(frozen=True)
class Setup:
    """The values of the knobs. Every request has `context_len` tokens; `max_num_seqs` is the largest batch."""

    model: str = "Llama-3.1-8B"
    gpu: str = "H100"
    num_gpus: int = 1
    bytes_per_number: int = roofline.BYTES_PER_NUMBER
    gpu_memory_utilization: float = 0.9
    block_size: int = 16
    context_len: int = 8192
    max_num_seqs: int = 64
    max_num_batched_tokens: int = 2048


@dataclass(frozen=True)
class StepWork:
    """The operations and bytes of a step, and the maximum tokens per second they allow."""

    num_tokens: int
    flops: float
    num_bytes: float
    tokens_per_second: float

    @property
    def intensity(self) -> float:
        return self.flops / self.num_bytes

    @property
    def flop_rate(self) -> float:
        """The maximum operations per second."""
        return self.flops / self.seconds

    @property
    def seconds(self) -> float:
        return self.num_tokens / self.tokens_per_second


@dataclass(frozen=True)
class Capacity:
    """The limits of a setup, in bytes, tokens and operations per second.

    `problem` is the reason the model does not fit, or empty if it fits. `concurrency` is the number of requests whose K
    and V fit at once; `batch_size` is `concurrency`, limited by `max_num_seqs`.
    """

    setup: Setup
    gpu: Gpu
    shape: ModelShape
    problem: str
    memory_bytes: int
    usable_bytes: int
    weight_bytes: int
    activation_bytes: int
    workspace_bytes: int
    kv_bytes_per_token: int
    kv_bytes_per_block: int
    num_blocks: int
    concurrency: int
    batch_size: int
    saturation_batch: float
    decode: StepWork
    prefill: StepWork

    @property
    def kv_bytes(self) -> int:
        return self.num_blocks * self.kv_bytes_per_block

    @property
    def bandwidth(self) -> float:
        return self.gpu.bandwidth * self.setup.num_gpus

    @property
    def peak_flops(self) -> float:
        return self.gpu.peak_flops * self.setup.num_gpus

    @property
    def ridge(self) -> float:
        """The number of operations per byte above which arithmetic, rather than bandwidth, is the limit."""
        return self.peak_flops / self.bandwidth


def capacity_of(setup: Setup) -> Capacity:
    """Compute all limits. Raises `ValueError` for an unknown name and for a context longer than the model's.

    A model that does not fit raises no error; instead, `problem` is set and there are zero blocks. The speeds are then
    those of a single request, as if the model fitted.
    """
    gpu, shape = find_gpu(setup.gpu), find_model_shape(setup.model)
    if setup.context_len > shape.max_model_len:
        raise ValueError(
            f"context_len is {setup.context_len:,}, but {shape.name} accepts 1 to {shape.max_model_len:,} tokens"
        )
    num_blocks, problem, size = 0, "", setup.bytes_per_number
    try:
        num_blocks = roofline.num_kv_blocks(
            gpu,
            shape,
            num_gpus=setup.num_gpus,
            block_size=setup.block_size,
            gpu_memory_utilization=setup.gpu_memory_utilization,
            bytes_per_number=size,
            max_num_batched_tokens=setup.max_num_batched_tokens,
        )
    except ValueError as error:
        problem = str(error)
    concurrency = roofline.max_concurrency(num_blocks, setup.context_len, setup.block_size) if num_blocks else 0
    batch_size = max(1, min(setup.max_num_seqs, concurrency))
    return Capacity(
        setup,
        gpu,
        shape,
        problem,
        memory_bytes=gpu.memory_bytes * setup.num_gpus,
        usable_bytes=int(gpu.memory_bytes * setup.num_gpus * setup.gpu_memory_utilization),
        weight_bytes=roofline.weight_bytes(shape, size),
        activation_bytes=roofline.activation_bytes(shape, setup.max_num_batched_tokens, setup.num_gpus),
        workspace_bytes=roofline.WORKSPACE_BYTES * setup.num_gpus,
        kv_bytes_per_token=roofline.kv_bytes_per_token(shape, size),
        kv_bytes_per_block=roofline.kv_bytes_per_block(shape, setup.block_size, size),
        num_blocks=num_blocks,
        concurrency=concurrency,
        batch_size=batch_size,
        saturation_batch=roofline.saturation_batch(gpu, size),
        decode=decode_work(setup, gpu, shape, batch_size),
        prefill=prefill_work(setup, gpu, shape),
    )


def decode_work(setup: Setup, gpu: Gpu, shape: ModelShape, batch_size: int) -> StepWork:
    """Return the work of a step in which each of `batch_size` requests gets one token."""
    context = batch_size * setup.context_len
    return work_of(setup, gpu, shape, StepCounts(batch_size, batch_size, context, context, batch_size))


def prefill_work(setup: Setup, gpu: Gpu, shape: ModelShape) -> StepWork:
    """Return the work of a prompt that is as long as the context, computed alone in one step."""
    length = setup.context_len
    return work_of(setup, gpu, shape, StepCounts(1, length, length, pairs(0, length), 1))


def work_of(setup: Setup, gpu: Gpu, shape: ModelShape, counts: StepCounts) -> StepWork:
    bound = cost_model.roofline(gpu, shape, setup.num_gpus, setup.bytes_per_number)
    num_bytes, flops = bound.work(*counts[1:])
    return StepWork(counts.num_tokens, flops, num_bytes, counts.num_tokens / bound.step_seconds(*counts))
