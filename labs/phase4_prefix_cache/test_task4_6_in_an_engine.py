"""Graded tests of task 4.6: the whole phase."""

from types import ModuleType

import pytest

from course.labtest.in_place.check import SEEDS, check_in_an_engine
from course.labtest.recorded import Answers


@pytest.mark.parametrize("seed", SEEDS[4].split())
def test_in_an_engine(phase4: ModuleType, answers: Answers, seed: str) -> None:
    check_in_an_engine(4, phase4, answers, int(seed))
