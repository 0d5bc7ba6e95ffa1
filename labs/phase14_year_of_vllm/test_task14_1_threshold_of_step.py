"""Graded tests for task 14.1: a step's threshold."""

from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase14_plays


@pytest.mark.parametrize("name", cases(phase14_plays, 1))
def test_threshold_of_step(phase14: ModuleType, answers: Answers, name: str) -> None:
    check(phase14_plays, phase14, answers, 1, name)
