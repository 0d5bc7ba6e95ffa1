"""Graded tests for task 8.3."""

from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase8_plays


@pytest.mark.parametrize("name", cases(phase8_plays, 3))
def test_correct_share(phase8: ModuleType, answers: Answers, name: str) -> None:
    check(phase8_plays, phase8, answers, 3, name)
