"""Graded tests for task 6.1."""

from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase6_plays


@pytest.mark.parametrize("name", cases(phase6_plays, 1))
def test_flatten_tokens(phase6: ModuleType, answers: Answers, name: str) -> None:
    check(phase6_plays, phase6, answers, 1, name)
