"""Graded tests for task 5.3."""

from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase5_plays


@pytest.mark.parametrize("name", cases(phase5_plays, 3))
def test_should_sample(phase5: ModuleType, answers: Answers, name: str) -> None:
    check(phase5_plays, phase5, answers, 3, name)
