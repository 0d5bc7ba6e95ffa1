"""`mini-vllm approaches`: other fair ways to write a task, once the learner's own passes."""

import threading
from dataclasses import replace
from typing import Annotated

import typer

from course.terminal.console import friendly, make_console


@friendly
def approaches(task: Annotated[str, typer.Argument(metavar="TASK", help="Such as 1.2.", show_default=False)]) -> None:
    """Show other fair ways to write a task that you have passed.

    Grades the task first. Each way passes the same tests, and comes with a sentence on what it costs.
    """
    from cli.watching.screen import show_approach, show_verdict
    from course.grading.approaches import task_named, unsealed
    from course.grading.grader import grade_tests

    console, (phase, number) = make_console(), task_named(task)
    grade = grade_tests(replace(phase, tasks=[phase.tasks[number - 1]]), threading.Event())
    if not grade.is_complete:
        show_verdict(console, grade)
        console.print(f"Other ways to write {task} are shown once yours passes.", markup=False)
        raise typer.Exit(1)
    found = unsealed(task)
    if not found:
        console.print(f"No other ways to write {task} are kept.", markup=False)
    for place in range(len(found)):
        show_approach(console, task, found, place)
