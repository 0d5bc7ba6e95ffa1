"""Graded tests for task 14.6: which blocks of a window enter the cache."""

from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase14_plays


@pytest.mark.parametrize("name", cases(phase14_plays, 6))
def test_reachable_blocks(phase14: ModuleType, answers: Answers, name: str) -> None:
    check(phase14_plays, phase14, answers, 6, name)
