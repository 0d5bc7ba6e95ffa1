"""Graded tests of task 5.5: the whole phase."""

from types import ModuleType

import pytest

from course.labtest.in_place.check import SEEDS, check_in_an_engine
from course.labtest.recorded import Answers


@pytest.mark.parametrize("seed", SEEDS[5].split())
def test_in_an_engine(phase5: ModuleType, answers: Answers, seed: str) -> None:
    check_in_an_engine(5, phase5, answers, int(seed))
