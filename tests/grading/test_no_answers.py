"""The student edition holds no answers: what it ships is tried in the place of the tasks."""

import os
import subprocess
import sys

import pytest

from solutions.phase1_scheduler_step import clamp
from tests.grading.leak_check import Call, outcome_of, try_all

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the functions are tried in forked processes")
NAMES = ["num_new", "budget", "threshold"]


@pytest.mark.parametrize("phase", [1])
def test_no_shipped_function_answers_like_the_reference(phase: int) -> None:
    command = [sys.executable, "-m", "tests.grading.leak_check", str(phase)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "shipped functions tried for 3 of" in done.stdout
    assert [line for line in done.stdout.splitlines() if line.startswith("! ")] == []


def other_order(threshold: int, budget: int, num_new: int) -> int:
    return clamp(num_new, budget, threshold)


def test_an_answer_is_found_behind_an_adapter_and_after_one_that_ends_the_process() -> None:
    calls = {"clamp": [Call(args, {}, outcome_of(clamp, args, {})) for args in ((9, 4, 0), (9, 20, 5), (3, 20, 5))]}
    shipped = {"ends": lambda *given: os._exit(1), "max": lambda a, b, c: max(a, b, c), "other": other_order}
    assert try_all(shipped, calls, {"clamp": NAMES}) == ["! clamp: other"]
