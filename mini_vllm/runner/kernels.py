"""Phase 6's optional task in the engine: Triton kernels in place of two of the torch functions, on a GPU."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from mini_vllm.runner.steps import FlatBatch, RunnerSteps, WriteKV


@dataclass(frozen=True, slots=True)
class TritonKernels:
    """The two functions that launch the kernels.

    `paged_decode_attention` takes query, key_cache, value_cache, block_tables, seq_lens and the scale.
    """

    reshape_and_cache: WriteKV
    paged_decode_attention: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, float], Tensor]


def with_kernels(steps: RunnerSteps, kernels: TritonKernels) -> RunnerSteps:
    """Return phase 6 with K and V written by a kernel, and attention by one when every request has one token.

    A step with a chunk in it still attends through torch: the kernel computes decodes only.
    """

    def paged_attention(
        query: Tensor, key_cache: Tensor, value_cache: Tensor, batch: FlatBatch, scale: float
    ) -> Tensor:
        if len(query) > len(batch.query_lens):
            return steps.paged_attention(query, key_cache, value_cache, batch, scale)
        return kernels.paged_decode_attention(query, key_cache, value_cache, batch.block_tables, batch.seq_lens, scale)

    return replace(steps, write_kv=kernels.reshape_and_cache, paged_attention=paged_attention, can_be_recorded=True)
