"""Compiles a module's kernels to PTX and machine code.

`python -m mini_vllm_labs.grading.labtest.phase6.compile_kernels labs.phase6_gpu_runner.starter_triton 90` compiles that
module's kernels for sm_90, on any computer with triton.
"""

import importlib
import re
import sys
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from mini_vllm_labs.runs.starter_status import message_of

SIZES = {
    "num_kv_heads": 8,
    "group": 2,
    "head_dim": 128,
    "block_size": 16,
    "heads_tile": 8,
    "rows_tile": 64,
    "dim_tile": 128,
}
KERNELS = ("reshape_and_cache_kernel", "paged_attention_kernel", "combine_kernel")
CHOICES = [  # the cache's dtype, the number of keys per tile, the number of parts
    ("fp32", 32, 1),
    ("bf16", 64, 1),
    ("bf16", 64, 4),
]
MAX_SHARED_BYTES = 99 * 1024  # the limit per program on a small GPU (sm_86, sm_89); larger GPUs have 163 or 227 KiB


def types_of(kernel: Any, number: str, num_parts: int) -> dict[str, str]:
    """Return the types of a kernel's non-constant arguments, for a cache with elements of type `number` (`fp32`,
    `bf16`)."""
    answers = "*fp32" if num_parts > 1 else f"*{number}"
    types = {"scale": "fp32", "sums": "*fp32", "parts": "*fp32", "output": answers}
    types |= dict.fromkeys(("slot_mapping", "block_tables", "seq_lens", "query_start_loc"), "*i64")
    return {name: types.get(name, "i32" if name.endswith("_stride") else f"*{number}") for name in kernel.arg_names}


def main() -> None:
    """Print each compiled kernel's target and the bytes of shared memory that it needs."""
    module, capability = importlib.import_module(sys.argv[1]), int(sys.argv[2])
    for name in KERNELS:
        kernel = getattr(module, name)
        for statement in kernel.parse().body[0].body:
            if message := message_of(statement):
                raise NotImplementedError(message)
        for number, keys_tile, num_parts in CHOICES:
            constants = SIZES | {"keys_tile": keys_tile, "num_parts": num_parts, "in_float32": False}
            constants = {key: value for key, value in constants.items() if key in kernel.arg_names}
            types = types_of(kernel, number, num_parts) | dict.fromkeys(constants, "constexpr")
            source = ASTSource(fn=kernel, signature=types, constexprs=constants)
            compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32))
            assert compiled.asm["cubin"], "no machine code"
            shared = compiled.metadata.shared
            assert shared <= MAX_SHARED_BYTES, f"{name} needs {shared:,} bytes of shared memory"
            print(*re.findall(r"^\.target (sm_\d+)", compiled.asm["ptx"], re.MULTILINE), shared)


if __name__ == "__main__":
    main()
