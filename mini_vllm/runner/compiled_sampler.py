"""The reference's sampler in C, which is used if there is a compiler."""

from array import array
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from mini_vllm.runner.c_library import LENGTH, POINTER, compile_library
from mini_vllm.runner.compiled import DTYPES, CFile
from mini_vllm.sampling_params import SamplingParams

Sample = Callable[[Tensor, Sequence[SamplingParams], Sequence[float]], list[int]]
MIN_SHARED_LOGITS = 32_768  # above this, several threads are faster than one


@cache
def _compiled(file: CFile, dtype: torch.dtype) -> Any:
    options = (f"-DIS_BFLOAT16={int(dtype is torch.bfloat16)}",)
    function = compile_library(file.name, file.code, options, is_kept=file.is_ours).sample
    function.argtypes, function.restype = (LENGTH, LENGTH, LENGTH, *[POINTER] * 3), LENGTH
    return function


def compiled_sample(in_torch: Sample, file: CFile) -> Sample:
    """Return a `sample` in C, compiled on first use; `in_torch` handles other dtypes.

    The returned function raises `MemoryError` if a row in float64 does not fit in memory.
    """

    def sample(logits: Tensor, params: Sequence[SamplingParams], draws: Sequence[float]) -> list[int]:
        if logits.dtype not in DTYPES:
            return in_torch(logits, params, draws)
        logits, (num_rows, width) = logits.contiguous(), logits.shape
        settings, tokens = array("d"), array("q", bytes(8 * num_rows))
        for one, draw in zip(params, draws, strict=True):
            # A `top_k` may be too large even for a float64.
            settings.extend((one.temperature, min(one.top_k, width), one.top_p, draw))
        threads = torch.get_num_threads() if logits.numel() >= MIN_SHARED_LOGITS else 1
        addresses = logits.data_ptr(), settings.buffer_info()[0], tokens.buffer_info()[0]
        if _compiled(file, logits.dtype)(num_rows, threads, width, *addresses):
            raise MemoryError(f"not enough memory for a row of {width:,} logits in float64")
        return tokens.tolist()

    return sample
