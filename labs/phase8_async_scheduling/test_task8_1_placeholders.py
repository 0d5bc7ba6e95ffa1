"""Graded tests for task 8.1."""

from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase8_plays


@pytest.mark.parametrize("name", cases(phase8_plays, 1))
def test_placeholders(phase8: ModuleType, answers: Answers, name: str) -> None:
    check(phase8_plays, phase8, answers, 1, name)
