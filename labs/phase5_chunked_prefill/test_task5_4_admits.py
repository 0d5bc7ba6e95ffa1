"""Graded tests for task 5.4."""

from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase5_plays


@pytest.mark.parametrize("name", cases(phase5_plays, 4))
def test_admits(phase5: ModuleType, answers: Answers, name: str) -> None:
    check(phase5_plays, phase5, answers, 4, name)
