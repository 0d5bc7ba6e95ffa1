"""Graded tests of task 8.4: the whole phase."""

from types import ModuleType

import pytest

from course.labtest.in_place.check import SEEDS, check_in_an_engine
from course.labtest.recorded import Answers


@pytest.mark.parametrize("seed", SEEDS[8].split())
def test_in_an_engine(phase8: ModuleType, answers: Answers, seed: str) -> None:
    check_in_an_engine(8, phase8, answers, int(seed))
