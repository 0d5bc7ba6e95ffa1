"""Phase 6's second optional task in the engine: decode attention in C, compiled for the model and this processor."""

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from mini_vllm.runner.c_starter import unwritten_task
from mini_vllm.runner.steps import Decodes, FlatBatch, PagedAttention

DTYPES = (torch.float32, torch.bfloat16)
COMPILERS = ("cc", "gcc", "clang")
OPTIONS = ("-O3", "-march=native", "-ffast-math", "-fPIC", "-c")
POINTER, LENGTH = ctypes.c_void_p, ctypes.c_int64
ARGUMENTS = (POINTER, LENGTH, LENGTH, POINTER, POINTER, POINTER, LENGTH, POINTER, POINTER, LENGTH, ctypes.c_float)

DecodeAttention = Callable[..., None]


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
        return [f"-D{field.name.upper()}={int(getattr(self, field.name))}" for field in fields(self)]


def find_compiler() -> str | None:
    """Return the path of a C compiler, or None."""
    return next((found for name in COMPILERS if (found := shutil.which(name))), None)


@cache
def can_compile() -> bool:
    """Return whether there is a C compiler that takes our options; not every machine with one has its headers."""
    if find_compiler() is None:
        return False
    with TemporaryDirectory() as folder:
        source = Path(folder) / "nothing.c"
        source.write_text('#include "decode_attention.h"\n#include <math.h>\n', encoding="ascii")
        return not _compile(source, Sizes(1, 1, 1, 1, False), source.with_suffix(".so"))


@cache
def compile_attention(name: str, code: str, sizes: Sizes) -> DecodeAttention:
    """Return the `paged_decode_attention` of a file of this name with this code, compiled for these sizes.

    Raises `NotImplementedError` while the code has its line `#error`, and `ValueError` with the compiler's own words
    if it refuses it.
    """
    if unwritten := unwritten_task(code):
        raise NotImplementedError(unwritten)
    with TemporaryDirectory() as folder:
        source, library = Path(folder) / name, Path(folder) / "attention.so"
        source.write_text(code, encoding="utf-8")
        if refusal := _compile(source, sizes, library):
            raise ValueError(f"{name} cannot be compiled:\n{refusal}")
        function = ctypes.CDLL(str(library)).paged_decode_attention
    function.argtypes, function.restype = ARGUMENTS, None
    attention: DecodeAttention = function
    return attention


def _compile(source: Path, sizes: Sizes, library: Path) -> str:
    """Compile a file to a library; return what the compiler says if it does not."""
    compiler, include, compiled = find_compiler() or "cc", f"-I{Path(__file__).parent}", library.with_suffix(".o")
    # The threads of torch compute, and no further ones: two pools would wait for each other.
    threads = sorted(map(str, (Path(torch.__file__).parent / "lib").glob("libgomp*")))[:1]
    openmp = ["-fopenmp"] if threads else []
    # Two steps, since a library that is linked with -ffast-math turns off subnormal numbers in the whole process.
    for arguments in (
        [*OPTIONS, *openmp, include, *sizes.options, str(source), "-o", str(compiled)],
        ["-shared", str(compiled), *threads, "-lm", "-o", str(library)],
    ):
        done = subprocess.run([compiler, *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            return done.stderr.strip() or f"exit code {done.returncode}"
    return ""


def compiled_attention(in_torch: PagedAttention, source: Path) -> PagedAttention:
    """Return an attention in which requests with few tokens attend through the function of a C file.

    Chunks attend `in_torch`, and so do other dtypes than float32 and bfloat16. The file is read now and compiled when
    it is first needed: what a later engine gets is the file as it is then.
    """
    code = source.read_text(encoding="utf-8")

    def paged_attention(
        query: Tensor, key_cache: Tensor, value_cache: Tensor, batch: FlatBatch, scale: float
    ) -> Tensor:
        if query.dtype not in DTYPES:
            return in_torch(query, key_cache, value_cache, batch, scale)
        attend = compile_attention(source.name, code, Sizes.of(query, key_cache))
        decodes, chunks = batch.decodes_and_chunks
        if chunks is None:
            return attend_rows(attend, query, key_cache, value_cache, decodes, scale)
        output = torch.empty(query.shape, dtype=query.dtype)
        output[chunks.rows] = in_torch(query[chunks.rows], key_cache, value_cache, chunks.batch, scale)
        if len(decodes.rows):
            rows = query[decodes.rows]
            output[decodes.rows] = attend_rows(attend, rows, key_cache, value_cache, decodes, scale)
        return output

    return paged_attention


def attend_rows(
    attend: DecodeAttention, query: Tensor, key_cache: Tensor, value_cache: Tensor, decodes: Decodes, scale: float
) -> Tensor:
    """Return the attention of rows [N, heads, head_dim], each over the blocks of its own table."""
    if query.stride(-1) != 1:
        query = query.contiguous()
    output = torch.empty(query.shape, dtype=query.dtype)
    tables, seq_lens = decodes.block_tables, decodes.seq_lens
    attend(
        query.data_ptr(),
        query.stride(0),
        query.stride(1),
        key_cache.data_ptr(),
        value_cache.data_ptr(),
        tables.data_ptr(),
        tables.stride(0),
        seq_lens.data_ptr(),
        output.data_ptr(),
        len(query),
        scale,
    )
    return output
