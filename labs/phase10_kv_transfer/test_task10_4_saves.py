"""Graded tests of task 10.4: the blocks that a step saves."""

from types import ModuleType

import pytest

from course.labtest import phase10_plays
from course.labtest.case_table import cases, check
from course.labtest.recorded import Answers


@pytest.mark.parametrize("name", cases(phase10_plays, 4))
def test_saves(phase10: ModuleType, answers: Answers, name: str) -> None:
    check(phase10_plays, phase10, answers, 4, name)
