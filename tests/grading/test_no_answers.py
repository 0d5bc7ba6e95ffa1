"""The student edition contains no answers: the code that it ships is tried in place of the tasks."""

import inspect
import os
import subprocess
import sys
from collections import defaultdict

import pytest

from mini_vllm_labs.grading.plan import load_whole_plan
from solutions import phase14_year_of_vllm
from solutions.phase1_scheduler_step import clamp
from tests.grading import leak_check
from tests.grading.leak_calls import MAX_CALLS_ALIKE, Call, keep, outcome_of
from tests.grading.leak_check import place_of, try_all

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the functions are tried in forked processes")
NAMES = ["num_new", "budget", "threshold"]
CALLS = {"clamp": [Call(args, {}, outcome_of(clamp, args, {})) for args in ((9, 4, 0), (9, 20, 5), (3, 20, 5))]}


def test_nothing_shipped_answers_like_the_reference_in_any_task() -> None:
    command = [sys.executable, "-m", "tests.grading.leak_check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    functions = [name for plan in load_whole_plan() for name in plan.names if is_tried(plan.number, name)]
    assert f"shipped functions tried for {len(functions)} functions of the phases" in done.stdout
    assert [line for line in done.stdout.splitlines() if line.startswith(("! ", "not recognised"))] == []


def is_tried(phase: int, name: str) -> bool:
    holder, inner = place_of(f"{phase} {name}")
    return inner != "__init__" and inspect.isfunction(inspect.getattr_static(holder, inner))


def other_order(threshold: int, budget: int, num_new: int) -> int:
    return clamp(num_new, budget, threshold)


def test_an_answer_is_found_behind_an_adapter_and_after_one_that_ends_the_process() -> None:
    shipped = {"ends": lambda *given: os._exit(1), "max": lambda a, b, c: max(a, b, c), "other": other_order}
    assert try_all(shipped, CALLS, {"clamp": NAMES}) == ["! clamp: other"]


def test_a_shipped_class_that_passes_a_task_is_found() -> None:
    plan = load_whole_plan()[13]
    shipped: dict[str, type] = {"copy": type("Copy", (phase14_year_of_vllm.PrefillPacer,), {}), "other": Call}
    found = [line for line in leak_check.try_classes(plan, phase14_year_of_vllm, shipped) if line.startswith("! ")]
    assert found
    assert all(line.endswith("PrefillPacer: copy") for line in found)


def test_what_answers_only_after_another_has_changed_something_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    changed: list[int] = []
    monkeypatch.setattr(leak_check, "NUM_PROCESSES", 1)
    shipped = {
        "changes": lambda num_new, budget, threshold: changed.append(num_new),
        "answers then": lambda num_new, budget, threshold: clamp(num_new, budget, threshold) if changed else None,
    }
    assert try_all(shipped, CALLS, {"clamp": NAMES}) == []


def test_calls_that_are_kept_come_from_the_whole_run() -> None:
    calls, num_seen = list[Call](), defaultdict[str, float](float)
    for number in range(1000):
        keep(Call((number,), {}, [number % 3 == 0]), calls, num_seen, weight=1)
    assert [sum(call.outcome == [answer] for call in calls) for answer in (True, False)] == [MAX_CALLS_ALIKE] * 2
    assert all(any(first <= call.args[0] < first + 250 for call in calls) for first in range(0, 1000, 250))
