"""Graded tests of task 2.3."""

from types import ModuleType

import pytest

from course.labtest import phase2_plays
from course.labtest.case_table import cases, check
from course.labtest.recorded import Answers


@pytest.mark.parametrize("name", cases(phase2_plays, 3))
def test_allocate_slots(phase2: ModuleType, answers: Answers, name: str) -> None:
    check(phase2_plays, phase2, answers, 3, name)
