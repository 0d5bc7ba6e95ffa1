"""Graded tests for task 2.5: the whole phase."""

from types import ModuleType

from mini_vllm_labs.grading.labtest.in_place.check import check_in_an_engine, each_scenario
from mini_vllm_labs.grading.labtest.recorded import Answers


@each_scenario(2)
def test_in_an_engine(phase2: ModuleType, answers: Answers, seed: int) -> None:
    check_in_an_engine(2, phase2, answers, seed)
