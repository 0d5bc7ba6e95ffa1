"""Graded tests of task 9.4: the bitmask over the rows of logits."""

from types import ModuleType

import pytest

from course.labtest.phase9 import cases, check
from course.labtest.recorded import Answers


@pytest.mark.parametrize("name", cases(4))
def test_apply_bitmask(phase9: ModuleType, answers: Answers, name: str) -> None:
    check(phase9, answers, 4, name)
