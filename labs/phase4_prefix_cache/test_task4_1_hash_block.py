"""Graded tests for task 4.1."""

from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase4_plays


@pytest.mark.parametrize("name", cases(phase4_plays, 1))
def test_hash_block(phase4: ModuleType, answers: Answers, name: str) -> None:
    check(phase4_plays, phase4, answers, 1, name)
