"""Graded tests of task 10.3: the blocks that a step loads."""

from types import ModuleType

import pytest

from course.labtest import phase10_plays
from course.labtest.case_table import cases, check
from course.labtest.recorded import Answers


@pytest.mark.parametrize("name", cases(phase10_plays, 3))
def test_loads(phase10: ModuleType, answers: Answers, name: str) -> None:
    check(phase10_plays, phase10, answers, 3, name)
