"""A few GPUs with the three figures that a roofline needs, from the vendor's data sheets."""

from dataclasses import dataclass

GIB = 2**30
GIGA, TERA = 10**9, 10**12


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as its data sheet describes it.

    `memory_bytes` counts a data sheet's "80 GB" as 80 GiB, the size of the memory chips. `bandwidth` is in bytes per
    second between memory and chip. `peak_flops` is in dense bfloat16 operations per second on the tensor cores; the
    sheets print twice that, "with sparsity".
    """

    name: str
    memory_bytes: int
    bandwidth: float
    peak_flops: float
    source: str


GPUS = (
    Gpu("L4", 24 * GIB, 300 * GIGA, 121 * TERA, "NVIDIA L4 Tensor Core GPU data sheet (242 TFLOPS with sparsity)"),
    Gpu("A10", 24 * GIB, 600 * GIGA, 125 * TERA, "NVIDIA A10 Tensor Core GPU data sheet"),
    Gpu("L40S", 48 * GIB, 864 * GIGA, 362 * TERA, "NVIDIA L40S data sheet (733 TFLOPS with sparsity)"),
    Gpu("A100-80GB", 80 * GIB, 2_039 * GIGA, 312 * TERA, "NVIDIA A100 Tensor Core GPU data sheet, 80 GB SXM"),
    Gpu("H100", 80 * GIB, 3_350 * GIGA, 989 * TERA, "NVIDIA H100 data sheet, SXM (1,979 TFLOPS with sparsity)"),
    Gpu("H200", 141 * GIB, 4_800 * GIGA, 989 * TERA, "NVIDIA H200 data sheet, SXM (1,979 TFLOPS with sparsity)"),
    Gpu("B200", 180 * GIB, 8_000 * GIGA, 2_250 * TERA, "NVIDIA DGX B200 data sheet, an eighth (4,500 with sparsity)"),
)


def default_budget(gpu: Gpu, *, serves: bool) -> tuple[int, int]:
    """Return the default `max_num_batched_tokens` and `max_num_seqs` of vLLM 0.13.0.

    `serves` selects the defaults of vLLM's server instead of its `LLM` class. A100s get the smaller defaults, because
    vLLM states that a large budget costs them throughput. (vLLM: `EngineArgs.get_batch_defaults` in
    `engine/arg_utils.py`.)
    """
    if gpu.memory_bytes >= 70 * GIB and not gpu.name.startswith("A100"):
        return (8192 if serves else 16384), 1024
    return (2048 if serves else 8192), 256


def find_gpu(name: str) -> Gpu:
    """Return the GPU called `name`, in upper or lower case. Raises a `ValueError` that lists the names."""
    for gpu in GPUS:
        if gpu.name.lower() == name.lower():
            return gpu
    raise ValueError(f"gpu must be one of {', '.join(gpu.name for gpu in GPUS)}, got {name!r}")
