"""Graded tests for task 1.3."""

from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase1_plays


@pytest.mark.parametrize("name", cases(phase1_plays, 3))
def test_admission(phase1: ModuleType, answers: Answers, name: str) -> None:
    check(phase1_plays, phase1, answers, 3, name)
