"""The grade on narrow and wide screens and as a job summary: nothing is cut, and learners' texts are escaped."""

import io
import re
from typing import Literal

import pytest
from rich.console import Console

from mini_vllm.assembly.lineup import PHASE_NAMES
from mini_vllm_labs.grading.plan import load_plan
from mini_vllm_labs.grading.reports import MAX_CHARACTERS, as_markdown, preformatted
from mini_vllm_labs.grading.results import EngineCheck, Grade, PhaseGrade, TaskGrade, TestResult
from mini_vllm_labs.grading.view import show_grade

HOSTILE = "</pre><script>alert(1)</script>\n\n| a | `b` | <!-- \x1b[2J\ud800 ```\n# heading"


def graded(phase: int, *failing: str, error: str = "", stack: EngineCheck | None = None) -> PhaseGrade:
    """Return a phase grade in which the first test of each task fails, as long as there are messages."""
    plan = load_plan()[phase - 1]
    tasks = []
    for index, task in enumerate(plan.tasks):
        tests = [TestResult(test, "passed") for test in task.tests]
        if index < len(failing):
            tests[0] = TestResult(task.tests[0], "failed", failing[index])
        tasks.append(TaskGrade(task, tests))
    return PhaseGrade(plan, "0" * 64, tasks, error, stack=stack or EngineCheck("passed"))


def test_the_points_and_the_next_step() -> None:
    untouched = graded(2)
    for task in untouched.tasks:
        task.tests[:] = [TestResult(test.id, "not started", "Not written yet") for test in task.tests]
    text = as_markdown(Grade([graded(1), untouched]))
    lines = text.splitlines()
    assert lines[0] == "## 50 of 100 points"
    assert "| 1 scheduler step | 10 10 10 10 10 | 50/50 | pass | pass |" in lines
    assert "| 2 block pool | 0 0 0 0 0 | 0/50 | - | pass |" in lines
    assert "Next: Phase 2, task 1 (labs/phase2_block_pool/README.md)" in lines
    assert "<details>" not in text, "what is not begun has not failed"


def test_the_first_failure_of_each_task_is_there() -> None:
    stack = EngineCheck("failed", "Workload 3: it stalls")
    text = as_markdown(Grade([graded(1, "first", "second", stack=stack), graded(3, error="a syntax error")]))
    titles = re.findall("<summary>(.*?)</summary>", text)
    assert [title.partition(":")[0] for title in titles] == [
        "Phase 1, task 1",
        "Phase 1, task 2",
        "Phase 1 in the stack",
        "Phase 3 could not be graded",
    ]
    assert re.findall("<pre>(.*)</pre>", text)[1:] == ["first", "second", "Workload 3: it stalls", "a syntax error"]
    assert "| 3 preemption | error | 0/50 | error | pass |" in text


def test_a_message_is_never_markup_and_never_long() -> None:
    text = as_markdown(Grade([graded(1, HOSTILE, "x" * 1_000_000)]))
    assert "<script" not in text
    assert "\x1b" not in text
    assert text.count("<pre>") == text.count("</pre>") == 3
    assert len(text.encode()) < 2 * MAX_CHARACTERS
    assert preformatted("a < b") == "<pre>a &lt; b</pre>"


TALLEST = 24


def grade(*, share: int, error: str) -> Grade:
    """Return a grade in which every `share`-th test fails, phase 2 has an error, and everything fails in the stack."""
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
    assert lines[0].split() == ["phase", "task", *"1234567", "points", "alone", "stack"]
    for line, name in zip(lines[2:8], PHASE_NAMES, strict=True):
        assert name in line
        assert line.rstrip().endswith("fail")
    end = next(index for index, line in enumerate(lines) if line.startswith("Phase 6 passes alone"))
    summary = lines[: end + 1]
    assert len(summary) <= TALLEST
    assert all(len(line) <= width for line in summary)
    assert not any("…" in line for line in summary)
    assert "0/50" in lines[3] if error else "/50" in lines[3]


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
