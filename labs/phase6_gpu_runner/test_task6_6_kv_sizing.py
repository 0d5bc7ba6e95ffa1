"""Graded tests of task 6.6."""

from types import ModuleType

import pytest

from course.labtest import phase6_plays
from course.labtest.case_table import cases, check
from course.labtest.recorded import Answers


@pytest.mark.parametrize("name", cases(phase6_plays, 6))
def test_kv_sizing(phase6: ModuleType, answers: Answers, name: str) -> None:
    check(phase6_plays, phase6, answers, 6, name)
