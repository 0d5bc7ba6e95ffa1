"""Graded tests for task 7.3."""

from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase7_plays


@pytest.mark.parametrize("name", cases(phase7_plays, 3))
def test_lookahead(phase7: ModuleType, answers: Answers, name: str) -> None:
    check(phase7_plays, phase7, answers, 3, name)
