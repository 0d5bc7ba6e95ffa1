"""A few GPUs with the three figures of a roofline, from the vendor's data sheets."""

from dataclasses import dataclass

GIB = 2**30
GIGA, TERA = 10**9, 10**12


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU by its data sheet.

    `memory_bytes`: a sheet's "80 GB" are 80 GiB of memory chips, counted as such.
    `bandwidth`: bytes per second between memory and chip. `peak_flops`: bfloat16 operations per second on
    the tensor cores, dense (the sheets print twice that, "with sparsity").
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
    """Return the `max_num_batched_tokens` and `max_num_seqs` that vLLM 0.13.0 chooses where none are given.

    `serves`: for its server, else for its `LLM` class. A100s are excepted: there a large budget costs throughput, it
    says. (vLLM: `EngineArgs.get_batch_defaults` in `engine/arg_utils.py`.)
    """
    if gpu.memory_bytes >= 70 * GIB and not gpu.name.startswith("A100"):
        return (8192 if serves else 16384), 1024
    return (2048 if serves else 8192), 256


def find_gpu(name: str) -> Gpu:
    """Return the GPU of that name in any case. Raises `ValueError` that lists the names."""
    for gpu in GPUS:
        if gpu.name.lower() == name.lower():
            return gpu
    raise ValueError(f"gpu must be one of {', '.join(gpu.name for gpu in GPUS)}, got {name!r}")
