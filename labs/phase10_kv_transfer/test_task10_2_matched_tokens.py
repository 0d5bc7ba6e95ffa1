"""Graded tests for task 10.2: how much of a request is stored."""

from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase10_plays


@pytest.mark.parametrize("name", cases(phase10_plays, 2))
def test_matched_tokens(phase10: ModuleType, answers: Answers, name: str) -> None:
    check(phase10_plays, phase10, answers, 2, name)
