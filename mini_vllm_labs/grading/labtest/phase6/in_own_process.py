"""Runs a learner's C function in a separate process, so that a crash of the function can be reported."""

from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Self

import pytest
import torch
from torch import Tensor

from mini_vllm.runner.compiled import CFile, compiled_attention
from mini_vllm.runner.steps import MAX_DECODE_TOKENS, FlatBatch

NUM_THREADS = 2


class OwnProcess:
    """A `paged_attention` that calls the function in a C file. If the process crashes, a new one replaces it."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def __call__(self, query: Tensor, key_cache: Tensor, value_cache: Tensor, batch: FlatBatch, scale: float) -> Tensor:
        """Compute attention with two threads. Raises the engine's errors if the file is unwritten or cannot be
        compiled."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, get_context("spawn"))
        step = replace(batch)  # a copy without cached results
        try:
            return self._pool.submit(attend, self.source, (query, key_cache, value_cache, step, scale)).result()
        except BrokenProcessPool:
            self._pool = None
            pytest.fail("Your function ended its process: it reads or writes outside its arrays.", pytrace=False)


def attend(source: Path, arguments: tuple[Any, ...]) -> Tensor:
    torch.set_num_threads(NUM_THREADS)
    return compiled_attention(no_chunks, CFile.read(source))(*arguments)


def no_chunks(query: Tensor, key_cache: Tensor, value_cache: Tensor, batch: FlatBatch, scale: float) -> Tensor:
    raise ValueError(f"in these tests, a request has at most {MAX_DECODE_TOKENS} tokens in a step")
