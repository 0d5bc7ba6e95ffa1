"""Graded tests of task 9.1: one step of a regex."""

from types import ModuleType

import pytest

from course.labtest.phase9 import cases, check
from course.labtest.recorded import Answers


@pytest.mark.parametrize("name", cases(1))
def test_next_positions(phase9: ModuleType, answers: Answers, name: str) -> None:
    check(phase9, answers, 1, name)
