"""Graded tests of task 9.3: the tokens that a DFA allows."""

from types import ModuleType

import pytest

from course.labtest.phase9 import cases, check
from course.labtest.recorded import Answers


@pytest.mark.parametrize("name", cases(3))
def test_token_masks(phase9: ModuleType, answers: Answers, name: str) -> None:
    check(phase9, answers, 3, name)
