"""Graded tests of task 10.1: the store in the host's memory."""

from types import ModuleType

import pytest

from course.labtest import phase10_plays
from course.labtest.case_table import cases, check
from course.labtest.recorded import Answers


@pytest.mark.parametrize("name", cases(phase10_plays, 1))
def test_host_store(phase10: ModuleType, answers: Answers, name: str) -> None:
    check(phase10_plays, phase10, answers, 1, name)
