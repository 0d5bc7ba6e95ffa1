"""Graded tests of task 2.1."""

from types import ModuleType

import pytest

from course.labtest import phase2_plays
from course.labtest.case_table import cases, check
from course.labtest.recorded import Answers


@pytest.mark.parametrize("name", cases(phase2_plays, 1))
def test_free_queue(phase2: ModuleType, answers: Answers, name: str) -> None:
    check(phase2_plays, phase2, answers, 1, name)
