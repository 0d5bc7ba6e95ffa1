"""Graded tests for task 11.3: where a chunk ends."""

from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase11_plays


@pytest.mark.parametrize("name", cases(phase11_plays, 3))
def test_schedule_encoder_inputs(phase11: ModuleType, answers: Answers, name: str) -> None:
    check(phase11_plays, phase11, answers, 3, name)
