"""Graded tests for task 11.2: the cached encodings."""

from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase11_plays


@pytest.mark.parametrize("name", cases(phase11_plays, 2))
def test_encoder_cache(phase11: ModuleType, answers: Answers, name: str) -> None:
    check(phase11_plays, phase11, answers, 2, name)
