"""Graded tests for task 4.6: the whole phase."""

from types import ModuleType

from mini_vllm_labs.grading.labtest.in_place.check import check_in_an_engine, each_scenario
from mini_vllm_labs.grading.labtest.recorded import Answers


@each_scenario(4)
def test_in_an_engine(phase4: ModuleType, answers: Answers, seed: int) -> None:
    check_in_an_engine(4, phase4, answers, seed)
