"""Graded tests for task 11.5: rows with different adapters."""

from types import ModuleType

import pytest

import mini_vllm_labs.grading.labtest.torch_loaded  # noqa: F401  # here: loaded once, not in each process that `grade` forks
from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase11_plays


@pytest.mark.parametrize("name", cases(phase11_plays, 5))
def test_bgmv(phase11: ModuleType, answers: Answers, name: str) -> None:
    check(phase11_plays, phase11, answers, 5, name)
