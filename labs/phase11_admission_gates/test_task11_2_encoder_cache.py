"""Graded tests of task 11.2: the encodings that exist."""

from types import ModuleType

import pytest

from course.labtest import phase11_plays
from course.labtest.case_table import cases, check
from course.labtest.recorded import Answers


@pytest.mark.parametrize("name", cases(phase11_plays, 2))
def test_encoder_cache(phase11: ModuleType, answers: Answers, name: str) -> None:
    check(phase11_plays, phase11, answers, 2, name)
