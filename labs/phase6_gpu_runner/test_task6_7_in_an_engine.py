"""Graded tests for task 6.7: the whole phase."""

from types import ModuleType

from mini_vllm_labs.grading.labtest.in_place.check import check_in_an_engine, each_scenario
from mini_vllm_labs.grading.labtest.recorded import Answers


@each_scenario(6)
def test_in_an_engine(phase6: ModuleType, answers: Answers, seed: int) -> None:
    check_in_an_engine(6, phase6, answers, seed)
