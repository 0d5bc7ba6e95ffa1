"""Graded tests for task 9.5: one request's position in a grammar."""

from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase9_plays


@pytest.mark.parametrize("name", cases(phase9_plays, 5))
def test_grammar(phase9: ModuleType, answers: Answers, name: str) -> None:
    check(phase9_plays, phase9, answers, 5, name)
