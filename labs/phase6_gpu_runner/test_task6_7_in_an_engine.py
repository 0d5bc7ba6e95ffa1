"""Graded tests of task 6.7: the whole phase."""

from types import ModuleType

import pytest

from course.labtest.in_place.check import SEEDS, check_in_an_engine
from course.labtest.recorded import Answers


@pytest.mark.parametrize("seed", SEEDS[6].split())
def test_in_an_engine(phase6: ModuleType, answers: Answers, seed: str) -> None:
    check_in_an_engine(6, phase6, answers, int(seed))
