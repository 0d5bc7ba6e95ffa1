"""Graded tests for task 12.5: attention with a window."""

from types import ModuleType

import pytest

import mini_vllm_labs.grading.labtest.torch_loaded  # noqa: F401  # here: loaded once, not in each process that `grade` forks
from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase12_plays


@pytest.mark.parametrize("name", cases(phase12_plays, 5))
def test_sliding_attention(phase12: ModuleType, answers: Answers, name: str) -> None:
    check(phase12_plays, phase12, answers, 5, name)
