"""The summary of a grade on narrow and wide screens: nothing is cut, and it fits."""

import io
from typing import Literal

import pytest
from rich.console import Console

from course.grading.plan import load_plan
from course.grading.results import EngineCheck, Grade, PhaseGrade, TaskGrade, TestResult
from course.grading.view import show_grade
from mini_vllm.assembly.lineup import PHASE_NAMES

TALLEST = 24


def grade(*, share: int, error: str) -> Grade:
    """Return a grade in which every `share`-th test fails, phase 2 has an error, and all fail in the stack."""
    phases = []
    for plan in load_plan():
        tasks = [
            TaskGrade(
                task,
                [TestResult(test, "passed" if index % share else "failed") for index, test in enumerate(task.tests)],
            )
            for task in plan.tasks
        ]
        wrong = error if plan.number == 2 else ""
        phases.append(PhaseGrade(plan, "", tasks, wrong, stack=EngineCheck("failed", culprits=[1])))
    return Grade(phases)


def shown(grade: Grade, width: int) -> list[str]:
    stream = io.StringIO()
    show_grade(Console(file=stream, width=width, force_terminal=False), grade)
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("width", [72, 80, 100, 120])
@pytest.mark.parametrize(
    "error", ["", "labs/phase2_block_pool/starter.py is missing."], ids=["graded", "with an error"]
)
def test_nothing_of_the_summary_is_cut(width: int, error: str) -> None:
    lines = shown(grade(share=7, error=error), width)
    assert lines[0].split() == ["phase", "task", *"123456", "points", "alone", "stack"]
    for line, name in zip(lines[2:8], PHASE_NAMES, strict=True):
        assert name in line
        assert line.rstrip().endswith("fail")
    end = next(index for index, line in enumerate(lines) if line.startswith("Phase 6 passes alone"))
    summary = lines[: end + 1]
    assert len(summary) <= TALLEST
    assert all(len(line) <= width for line in summary)
    assert not any("…" in line for line in summary)
    assert "0/40" in lines[3] if error else "/40" in lines[3]


def finished(num_phases: int) -> Grade:
    phases = []
    for plan in load_plan():
        outcome: Literal["passed", "not started"] = "passed" if plan.number <= num_phases else "not started"
        tasks = [TaskGrade(task, [TestResult(test, outcome) for test in task.tests]) for task in plan.tasks]
        phases.append(PhaseGrade(plan, "", tasks, ""))
    return Grade(phases)


@pytest.mark.parametrize(("num_phases", "leads"), [(4, False), (5, True), (6, True)])
def test_the_last_line_leads_to_the_notebooks_after_the_phases_that_they_need(num_phases: int, leads: bool) -> None:
    assert ("09 (write a scheduling policy)" in shown(finished(num_phases), 100)[-1 if num_phases < 6 else -2]) == leads


def test_failures_with_one_cause_are_named_below_the_first() -> None:
    crash = "{}\n  labs/phase1_scheduler_step/starter.py:{}, in clamp"
    messages = {0: crash.format("KeyError: 3", 7), 2: crash.format("KeyError: 4", 7), 3: crash.format("KeyError: 3", 8)}
    plan = load_plan()[0]
    task = plan.tasks[0]
    results = [
        TestResult(test, "failed" if index in messages else "passed", messages.get(index, ""))
        for index, test in enumerate(task.tests)
    ]
    lines = shown(Grade([PhaseGrade(plan, "", [TaskGrade(task, results)])]), 100)
    assert f"  One more test fails like this: {task.tests[2].rpartition('::')[2]}" in lines
