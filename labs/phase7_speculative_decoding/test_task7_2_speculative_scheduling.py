"""Graded tests for task 7.2."""

from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase7_plays


@pytest.mark.parametrize("name", cases(phase7_plays, 2))
def test_speculative_scheduling(phase7: ModuleType, answers: Answers, name: str) -> None:
    check(phase7_plays, phase7, answers, 2, name)
