"""Phase 6 in C, compiled for this model and processor: the second optional task, and the reference's kernels."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from mini_vllm.runner.c_library import LENGTH, NUMBER, POINTER, compile_library
from mini_vllm.runner.c_starter import unwritten_task
from mini_vllm.runner.steps import Decodes, FlatBatch, PagedAttention, RunnerSteps, WriteKV

DTYPES = (torch.float32, torch.bfloat16)
QUERY_AND_CACHES = (POINTER, LENGTH, LENGTH, POINTER, POINTER)
ARGUMENTS = {
    "paged_decode_attention": (*QUERY_AND_CACHES, POINTER, LENGTH, POINTER, POINTER, LENGTH, NUMBER),
    "paged_chunk_attention": (*QUERY_AND_CACHES, POINTER, LENGTH, POINTER, POINTER, POINTER, LENGTH, POINTER, NUMBER),
    "reshape_and_cache": (POINTER, POINTER, LENGTH, POINTER, POINTER, POINTER, LENGTH),
}

CFunction = Callable[..., None]


@dataclass(frozen=True, slots=True)
class KernelSizes:
    """A model's compile-time constants: the sizes of its heads and blocks, and its dtype."""

    num_kv_heads: int
    group: int
    head_dim: int
    block_size: int
    is_bfloat16: bool

    @classmethod
    def of(cls, query: Tensor, key_cache: Tensor) -> "KernelSizes":
        block_size, num_kv_heads, head_dim = key_cache.shape[1:]
        return cls(num_kv_heads, query.shape[1] // num_kv_heads, head_dim, block_size, query.dtype is torch.bfloat16)

    @property
    def options(self) -> tuple[str, ...]:
        return tuple(f"-D{field.name.upper()}={int(getattr(self, field.name))}" for field in fields(self))


@dataclass(frozen=True, slots=True)
class CFile:
    """The text of a C file at the time the engine was built; later edits affect only new engines.

    `is_ours` means that the file is not a learner's.
    """

    name: str
    code: str
    is_ours: bool = False

    @classmethod
    def read(cls, path: Path, *, is_ours: bool = False) -> "CFile":
        return cls(path.name, path.read_text(encoding="utf-8"), is_ours)


@cache
def compiled_function(name: str, file: CFile, sizes: KernelSizes) -> CFunction:
    """Compile a file for these sizes, once, and return one of its functions.

    Raises `NotImplementedError` while the code still has its `#error` line, and `ValueError` with the compiler's
    message if compiling fails.
    """
    if unwritten := unwritten_task(file.code):
        raise NotImplementedError(unwritten)
    function = getattr(compile_library(file.name, file.code, sizes.options, is_kept=file.is_ours), name)
    function.argtypes, function.restype = ARGUMENTS[name], None
    typed: CFunction = function
    return typed


def in_c(steps: RunnerSteps, decodes: Path, kernels: Path | None = None) -> RunnerSteps:
    """Return a copy of `steps` in which decoding requests use the attention function from a C file.

    The reference's second file, `kernels`, computes the attention of chunks and writes K and V.
    """
    if kernels is None:
        return replace(steps, paged_attention=compiled_attention(steps.paged_attention, CFile.read(decodes)))
    kernels_file, decodes_file = CFile.read(kernels, is_ours=True), CFile.read(decodes, is_ours=True)
    attention = compiled_attention(steps.paged_attention, decodes_file, kernels_file)
    return replace(steps, paged_attention=attention, write_kv=compiled_write_kv(steps.write_kv, kernels_file))


def compiled_attention(
    in_torch: PagedAttention, decodes_file: CFile, chunks_file: CFile | None = None
) -> PagedAttention:
    """Return an attention function in C; `in_torch` handles other dtypes, and also chunks if `chunks_file` is None."""

    def paged_attention(
        query: Tensor, key_cache: Tensor, value_cache: Tensor, batch: FlatBatch, scale: float
    ) -> Tensor:
        if query.dtype not in DTYPES:
            return in_torch(query, key_cache, value_cache, batch, scale)
        if query.stride(-1) != 1:
            query = query.contiguous()
        sizes, caches = KernelSizes.of(query, key_cache), (key_cache, value_cache)
        attend = compiled_function("paged_decode_attention", decodes_file, sizes)
        decodes, chunks = batch.decodes_and_chunks
        if chunks is None:
            return attend_rows(attend, query, *caches, decodes, scale)
        output = torch.empty(query.shape, dtype=query.dtype)
        if chunks_file is None:
            output[chunks.rows] = in_torch(query[chunks.rows], *caches, chunks.batch, scale)
        else:
            compiled_function("paged_chunk_attention", chunks_file, sizes)(
                *_query_and_caches(query, *caches),
                batch.block_tables.data_ptr(),
                batch.block_tables.stride(0),
                batch.query_start_loc.data_ptr(),
                batch.seq_lens.data_ptr(),
                chunks.requests.data_ptr(),
                len(chunks.requests),
                output.data_ptr(),
                scale,
            )
        if len(decodes.rows):
            output[decodes.rows] = attend_rows(attend, query[decodes.rows], *caches, decodes, scale)
        return output

    return paged_attention


def attend_rows(
    attend: CFunction, query: Tensor, key_cache: Tensor, value_cache: Tensor, decodes: Decodes, scale: float
) -> Tensor:
    """Compute attention for rows [N, heads, head_dim], each over the blocks in its block table."""
    output = torch.empty(query.shape, dtype=query.dtype)
    attend(
        *_query_and_caches(query, key_cache, value_cache),
        decodes.block_tables.data_ptr(),
        decodes.block_tables.stride(0),
        decodes.seq_lens.data_ptr(),
        output.data_ptr(),
        len(query),
        scale,
    )
    return output


def _query_and_caches(query: Tensor, key_cache: Tensor, value_cache: Tensor) -> tuple[int, ...]:
    return query.data_ptr(), query.stride(0), query.stride(1), key_cache.data_ptr(), value_cache.data_ptr()


def compiled_write_kv(in_torch: WriteKV, file: CFile) -> WriteKV:
    """Return a `write_kv` in C; `in_torch` handles other dtypes and non-contiguous heads."""

    def write_kv(key: Tensor, value: Tensor, key_cache: Tensor, value_cache: Tensor, slot_mapping: Tensor) -> None:
        are_neighbours = key.stride() == value.stride() and key.stride()[1:] == (key.shape[2], 1)
        if key.dtype not in DTYPES or not are_neighbours:
            return in_torch(key, value, key_cache, value_cache, slot_mapping)
        write = compiled_function("reshape_and_cache", file, KernelSizes.of(key, key_cache))
        return write(
            key.data_ptr(),
            value.data_ptr(),
            key.stride(0),
            key_cache.data_ptr(),
            value_cache.data_ptr(),
            slot_mapping.data_ptr(),
            len(key),
        )

    return write_kv
