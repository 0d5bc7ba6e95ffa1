"""Graded tests for task 3.4: by priority."""

from types import ModuleType

import pytest

from mini_vllm_labs.grading.labtest.case_table import cases, check
from mini_vllm_labs.grading.labtest.recorded import Answers
from mini_vllm_labs.grading.plays import phase3_plays


@pytest.mark.parametrize("name", cases(phase3_plays, 5))
def test_make_room_by_priority(phase3: ModuleType, answers: Answers, name: str) -> None:
    check(phase3_plays, phase3, answers, 5, name)
