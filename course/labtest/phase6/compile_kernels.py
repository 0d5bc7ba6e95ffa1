"""Compile the kernels of a module to PTX and machine code: `python -m course.labtest.phase6.compile_kernels
labs.phase6_gpu_runner.starter_triton 90` does it for sm_90, on any computer with triton.
"""

import importlib
import re
import sys
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from course.starter_status import message_of

SIZES = {
    "num_kv_heads": 2,
    "group": 4,
    "head_dim": 64,
    "block_size": 16,
    "heads_tile": 2,
    "group_tile": 4,
    "dim_tile": 64,
    "block_tile": 16,
}
KERNELS = ("reshape_and_cache_kernel", "paged_decode_kernel")


def types_of(kernel: Any, number: str) -> dict[str, str]:
    """Return the types of a kernel's arguments, by name, for a cache of `number` (`fp32`, `bf16`)."""
    types = {}
    for name in kernel.arg_names:
        if name in SIZES:
            types[name] = "constexpr"
        elif name in ("slot_mapping", "block_tables", "seq_lens"):
            types[name] = "*i64"
        elif name == "scale":
            types[name] = "fp32"
        else:
            types[name] = "i32" if name.endswith("_stride") else f"*{number}"
    return types


def main() -> None:
    """Print the target that each kernel was compiled for, in fp32 and bf16."""
    module, capability = importlib.import_module(sys.argv[1]), int(sys.argv[2])
    for name in KERNELS:
        kernel = getattr(module, name)
        for statement in kernel.parse().body[0].body:
            if message := message_of(statement):
                raise NotImplementedError(message)
        for number in ("fp32", "bf16"):
            sizes = {name: size for name, size in SIZES.items() if name in kernel.arg_names}
            source = ASTSource(fn=kernel, signature=types_of(kernel, number), constexprs=sizes)
            compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32))
            assert compiled.asm["cubin"], "no machine code"
            print(*re.findall(r"^\.target (sm_\d+)", compiled.asm["ptx"], re.MULTILINE))


if __name__ == "__main__":
    main()
