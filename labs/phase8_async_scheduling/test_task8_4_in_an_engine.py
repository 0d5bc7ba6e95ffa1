"""Graded tests for task 8.4: the whole phase."""

from types import ModuleType

from mini_vllm_labs.grading.labtest.in_place.check import check_in_an_engine, each_scenario
from mini_vllm_labs.grading.labtest.recorded import Answers


@each_scenario(8)
def test_in_an_engine(phase8: ModuleType, answers: Answers, seed: int) -> None:
    check_in_an_engine(8, phase8, answers, seed)
