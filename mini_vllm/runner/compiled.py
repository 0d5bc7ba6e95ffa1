"""Phase 6's second optional task in the engine: decode attention in C, compiled for the model and this processor."""

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from mini_vllm.runner.steps import Decodes, FlatBatch, RunnerSteps

DTYPES = (torch.float32, torch.bfloat16)
COMPILERS = ("cc", "gcc", "clang")
OPTIONS = ("-O3", "-march=native", "-ffast-math", "-shared", "-fPIC")
POINTER, LENGTH = ctypes.c_void_p, ctypes.c_int64
ARGUMENTS = (POINTER, LENGTH, LENGTH, POINTER, POINTER, POINTER, LENGTH, POINTER, POINTER, LENGTH, ctypes.c_float)


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the compiler knows of a model: the sizes of its heads and blocks, and its dtype."""

    num_kv_heads: int
    group: int
    head_dim: int
    block_size: int
    is_bfloat16: bool

    @classmethod
    def of(cls, query: Tensor, key_cache: Tensor) -> "Sizes":
        block_size, num_kv_heads, head_dim = key_cache.shape[1:]
        return cls(num_kv_heads, query.shape[1] // num_kv_heads, head_dim, block_size, query.dtype is torch.bfloat16)

    @property
    def options(self) -> list[str]:
        named = {name: getattr(self, name) for name in self.__slots__}
        return [f"-D{name.upper()}={int(value)}" for name, value in named.items()]


def find_compiler() -> str | None:
    """Return the path of a C compiler, or None."""
    return next((found for name in COMPILERS if (found := shutil.which(name))), None)


def thread_options() -> list[str]:
    """Return what makes the threads of torch compute, and no further ones: two pools would wait for each other."""
    libraries = (Path(torch.__file__).parent / "lib").glob("libgomp*")
    return [option for library in libraries for option in ("-fopenmp", str(library))]


@cache
def compile_attention(source: Path, sizes: Sizes) -> Callable[..., None]:
    """Return `paged_decode_attention` of a C file, compiled for these sizes.

    Raises `ValueError` with the compiler's own words if it refuses the file.
    """
    with TemporaryDirectory() as folder:
        library = Path(folder) / "attention.so"
        include = f"-I{Path(__file__).parent}"
        command = [find_compiler() or "cc", *OPTIONS, include, *sizes.options, str(source), "-o", str(library)]
        done = subprocess.run([*command, *thread_options(), "-lm"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(f"{source.name} cannot be compiled:\n{done.stderr.strip()}")
        function = ctypes.CDLL(str(library)).paged_decode_attention
    function.argtypes, function.restype = ARGUMENTS, None
    return function


@cache
def can_compile() -> bool:
    """Return whether there is a C compiler that takes our options; not every machine with one has its headers."""
    if find_compiler() is None:
        return False
    with TemporaryDirectory() as folder:
        source = Path(folder) / "nothing.c"
        source.write_text("#include <math.h>\nvoid paged_decode_attention(void) {}\n", encoding="ascii")
        try:
            compile_attention(source, Sizes(1, 1, 1, 1, False))
        except (ValueError, OSError):
            return False
    return True


def with_compiled_attention(steps: RunnerSteps, source: Path) -> RunnerSteps:
    """Return phase 6 in which requests with few tokens attend through the function of a C file, chunks through torch.

    Other dtypes than float32 and bfloat16 attend through torch, too.
    """

    def paged_attention(
        query: Tensor, key_cache: Tensor, value_cache: Tensor, batch: FlatBatch, scale: float
    ) -> Tensor:
        if query.dtype not in DTYPES:
            return steps.paged_attention(query, key_cache, value_cache, batch, scale)
        attend = compile_attention(source, Sizes.of(query, key_cache))
        output = torch.empty(query.shape, dtype=query.dtype)
        decodes, chunks = batch.decodes_and_chunks
        if chunks is None:
            call(attend, query, key_cache, value_cache, decodes, scale, output)
            return output
        output[chunks.rows] = steps.paged_attention(query[chunks.rows], key_cache, value_cache, chunks.batch, scale)
        if len(decodes.rows):
            attended = torch.empty((len(decodes.rows), *query.shape[1:]), dtype=query.dtype)
            call(attend, query[decodes.rows], key_cache, value_cache, decodes, scale, attended)
            output[decodes.rows] = attended
        return output

    return replace(steps, paged_attention=paged_attention)


def call(
    attend: Callable[..., None],
    query: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    decodes: Decodes,
    scale: float,
    output: Tensor,
) -> None:
    """Fill `output` [rows, heads, head_dim], contiguous; the query may be a view whose last dimension is contiguous."""
    if query.stride(-1) != 1:
        query = query.contiguous()
    tables = decodes.block_tables
    attend(
        query.data_ptr(),
        query.stride(0),
        query.stride(1),
        key_cache.data_ptr(),
        value_cache.data_ptr(),
        tables.data_ptr(),
        tables.stride(0),
        decodes.seq_lens.data_ptr(),
        output.data_ptr(),
        len(query),
        scale,
    )
