"""The arrays of a step are staged in memory that the next step reuses, and arrive unchanged."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mini_vllm.runner.step_buffer import Numbers, StepBuffer

CPU = torch.device("cpu")
WHOLE = st.integers(-(2**63), 2**63 - 1)
ROWS = st.lists(WHOLE, max_size=20)
RECTANGLES = st.integers(1, 6).flatmap(
    lambda width: st.lists(st.lists(WHOLE, min_size=width, max_size=width), min_size=1, max_size=6)
)


@given(st.lists(st.lists(ROWS | RECTANGLES, min_size=1, max_size=8), min_size=1, max_size=4))
def test_every_step_gets_its_own_numbers_back(steps: list[list[Numbers]]) -> None:
    buffer = StepBuffer(CPU)
    for parts in steps:
        staged = buffer.stage(parts)
        assert [part.tolist() for part in staged] == parts
        assert all(part.dtype is torch.int64 for part in staged)


def test_a_step_that_fits_allocates_no_new_memory() -> None:
    buffer = StepBuffer(CPU)
    first, table = buffer.stage([range(20), [[1, 2], [3, 4]]])
    second, _ = buffer.stage([range(20, 30), [[5, 6, 7]]])
    assert second.data_ptr() == first.data_ptr()
    assert first.tolist() == [*range(20, 30), 5, 6, 7, *range(13, 20)]
    assert table.untyped_storage().data_ptr() == second.untyped_storage().data_ptr()


def test_numpy_arrays_are_staged_as_lists_are() -> None:
    parts: list[Any] = [np.arange(3), np.arange(6).reshape(2, 3), tuple(np.arange(2))]
    assert [part.tolist() for part in StepBuffer(CPU).stage(parts)] == [[0, 1, 2], [[0, 1, 2], [3, 4, 5]], [0, 1]]


@pytest.mark.parametrize("ragged", [[[1, 2], [3]], [[1], [2, 3]], [[], [1]]])
def test_rows_of_different_lengths_are_refused(ragged: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="inhomogeneous"):
        StepBuffer(CPU).stage([[1], ragged])
