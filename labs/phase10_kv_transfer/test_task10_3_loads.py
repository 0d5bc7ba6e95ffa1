"""Graded tests for task 10.3: the blocks that a step loads."""

from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase10_plays


@pytest.mark.parametrize("name", cases(phase10_plays, 3))
def test_loads(phase10: ModuleType, answers: Answers, name: str) -> None:
    check(phase10_plays, phase10, answers, 3, name)
