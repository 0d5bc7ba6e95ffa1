"""Graded tests for task 12.3: a sliding layer's hit."""

from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase12_plays


@pytest.mark.parametrize("name", cases(phase12_plays, 3))
def test_find_sliding_hit(phase12: ModuleType, answers: Answers, name: str) -> None:
    check(phase12_plays, phase12, answers, 3, name)
