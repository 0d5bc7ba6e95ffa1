"""Phase 6's optional task in the engine: Triton kernels in place of two of the torch functions, on a GPU."""

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from mini_vllm.runner.steps import FlatBatch, RunnerSteps, WriteKV
from mini_vllm.seams.lineup import Impl
from mini_vllm.seams.parts import runner_steps_for, triton_kernels_for


class PagedDecodeAttention(Protocol):
    def __call__(
        self,
        query: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        block_tables: Tensor,
        seq_lens: Tensor,
        scale: float,
    ) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class TritonKernels:
    """The two functions that launch the kernels."""

    reshape_and_cache: WriteKV
    paged_decode_attention: PagedDecodeAttention


def with_kernels(steps: RunnerSteps, kernels: TritonKernels) -> RunnerSteps:
    """Return phase 6 with K and V written by a kernel, and attention by one when every request has one token.

    A step with a chunk in it still attends through torch: the decode kernel knows no chunks.
    """

    def paged_attention(
        query: Tensor, key_cache: Tensor, value_cache: Tensor, batch: FlatBatch, scale: float
    ) -> Tensor:
        if len(query) > len(batch.query_lens):
            return steps.paged_attention(query, key_cache, value_cache, batch, scale)
        return kernels.paged_decode_attention(query, key_cache, value_cache, batch.block_tables, batch.seq_lens, scale)

    return replace(steps, write_kv=kernels.reshape_and_cache, paged_attention=paged_attention)


def steps_on(device: torch.device, impl: Impl) -> RunnerSteps:
    """Return phase 6 for a device: with the kernels on a GPU where they can be had, else in torch alone."""
    steps = runner_steps_for(impl)
    kernels = triton_kernels_for(impl) if device.type == "cuda" else None
    return steps if kernels is None else with_kernels(steps, kernels)
