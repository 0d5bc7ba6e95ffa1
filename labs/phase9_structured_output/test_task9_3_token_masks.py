"""Graded tests for task 9.3: the tokens that a DFA allows."""

from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase9_plays


@pytest.mark.parametrize("name", cases(phase9_plays, 3))
def test_token_masks(phase9: ModuleType, answers: Answers, name: str) -> None:
    check(phase9_plays, phase9, answers, 3, name)
