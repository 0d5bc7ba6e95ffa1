"""Graded tests for task 9.4: the bitmask over the rows of logits."""

from types import ModuleType

import pytest

import mini_vllm_labs.grading.labtest.torch_loaded  # noqa: F401  # here: loaded once, not in each process that `grade` forks
from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase9_plays


@pytest.mark.parametrize("name", cases(phase9_plays, 4))
def test_apply_bitmask(phase9: ModuleType, answers: Answers, name: str) -> None:
    check(phase9_plays, phase9, answers, 4, name)
