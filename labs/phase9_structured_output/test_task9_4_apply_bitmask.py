"""Graded tests of task 9.4: the bitmask over the rows of logits."""

from types import ModuleType

import pytest
import torch

from course.labtest import phase9_plays
from course.labtest.case_table import cases, check
from course.labtest.cost import check_constant_work
from course.labtest.recorded import Answers
from course.labtest.work import work_of


@pytest.mark.parametrize("name", cases(phase9_plays, 4))
def test_apply_bitmask(phase9: ModuleType, answers: Answers, name: str) -> None:
    check(phase9_plays, phase9, answers, 4, name)


def test_no_loop_over_tokens(phase9: ModuleType) -> None:
    def work_with(num_tokens: int) -> int:
        given = torch.zeros(1, num_tokens), torch.zeros(1, -(-num_tokens // 32), dtype=torch.int32), [0]
        return work_of(lambda: phase9.apply_bitmask(*given), str(phase9.__file__))

    rule = "No loop over tokens or words: in Python it would take longer than the model."
    hint = "which line of your code runs once for each token, and which operation on a tensor does it for all of them?"
    check_constant_work(work_with, "apply_bitmask", "tokens", rule=rule, hint=hint)
