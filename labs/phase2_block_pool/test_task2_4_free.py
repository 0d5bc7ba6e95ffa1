"""Graded tests for task 2.4."""

from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase2_plays


@pytest.mark.parametrize("name", cases(phase2_plays, 4))
def test_free(phase2: ModuleType, answers: Answers, name: str) -> None:
    check(phase2_plays, phase2, answers, 4, name)
