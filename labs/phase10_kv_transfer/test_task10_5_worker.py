"""Graded tests for task 10.5: copying the blocks."""

from types import ModuleType

import pytest

import mini_vllm_labs.grading.labtest.torch_loaded  # noqa: F401  # here: loaded once, not in each process that `grade` forks
from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase10_plays


@pytest.mark.parametrize("name", cases(phase10_plays, 5))
def test_worker(phase10: ModuleType, answers: Answers, name: str) -> None:
    check(phase10_plays, phase10, answers, 5, name)
