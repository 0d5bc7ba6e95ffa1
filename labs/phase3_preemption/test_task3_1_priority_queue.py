"""Graded tests for task 3.1."""

from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase3_plays


@pytest.mark.parametrize("name", cases(phase3_plays, 1))
def test_priority_queue(phase3: ModuleType, answers: Answers, name: str) -> None:
    check(phase3_plays, phase3, answers, 1, name)
