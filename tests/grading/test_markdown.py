"""The job summary: points as in the tables, and nothing of a learner's file as markup."""

import re

from course.grading import results
from course.grading.plan import load_plan
from course.grading.reports import MAX_CHARACTERS, as_markdown, preformatted
from course.grading.results import EngineCheck, Grade, PhaseGrade, TaskGrade

HOSTILE = "</pre><script>alert(1)</script>\n\n| a | `b` | <!-- \x1b[2J\ud800 ```\n# heading"


def graded(phase: int, *failing: str, error: str = "", stack: EngineCheck | None = None) -> PhaseGrade:
    """Return a phase of which the first test of each task fails with one of the messages, as far as there are any."""
    plan = load_plan()[phase - 1]
    tasks = []
    for index, task in enumerate(plan.tasks):
        tests = [results.TestResult(test, "passed") for test in task.tests]
        if index < len(failing):
            tests[0] = results.TestResult(task.tests[0], "failed", failing[index])
        tasks.append(TaskGrade(task, tests))
    return PhaseGrade(plan, "0" * 64, tasks, error, stack=stack or EngineCheck("passed"))


def test_the_points_and_the_next_step() -> None:
    untouched = graded(2)
    for task in untouched.tasks:
        task.tests[:] = [results.TestResult(test.id, "not started", "Not written yet") for test in task.tests]
    text = as_markdown(Grade([graded(1), untouched]))
    lines = text.splitlines()
    assert lines[0] == "## 40 of 80 points"
    assert "| 1 scheduler step | 10 10 10 10 | 40/40 | pass | pass |" in lines
    assert "| 2 block pool | 0 0 0 0 | 0/40 | - | pass |" in lines
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
    assert "| 3 preemption | error | 0/40 | error | pass |" in text


def test_a_message_is_never_markup_and_never_long() -> None:
    text = as_markdown(Grade([graded(1, HOSTILE, "x" * 1_000_000)]))
    assert "<script" not in text
    assert "\x1b" not in text
    assert text.count("<pre>") == text.count("</pre>") == 3
    assert len(text.encode()) < 2 * MAX_CHARACTERS
    assert preformatted("a < b") == "<pre>a &lt; b</pre>"
