"""The grade as Markdown, for the job summary of GitHub Actions: points, the next step, what failed first."""

from collections.abc import Iterator
from html import escape

from course.grading.next_step import next_step
from course.grading.reports import clean
from course.grading.results import Grade, PhaseGrade
from course.grading.view import WORDS, number, point_lines

MAX_CHARACTERS = 4000


def as_markdown(grade: Grade) -> str:
    """Return the page. Texts from a learner's file are preformatted, so that nothing in them is markup."""
    what, command = next_step(grade)
    lines = [
        f"## {'; '.join(line.removesuffix(', 10 a task') for line in point_lines(grade))}",
        "",
        "| Phase | Tasks | Points | Alone | Stack |",
        "|---|---|---|---|---|",
        *map(row, grade.phases),
        "",
        f"Next: {escape(what)}",
        "",
        *([f"<pre>{escape(command)}</pre>", ""] if command else []),
    ]
    for phase in grade.phases:
        for title, message in failures(phase):
            lines += [f"<details><summary>{escape(title)}</summary>", "", preformatted(message), "", "</details>", ""]
    return "\n".join(lines)


def row(phase: PhaseGrade) -> str:
    """Return a phase as a row of the table."""
    tasks = "error" if phase.error else " ".join(number(task.points) for task in phase.tasks)
    points = f"{number(phase.points)}/{phase.plan.points}"
    verdicts = (WORDS.get(status, "-") for status in (phase.alone, phase.stack.status))
    return f"| {phase.plan.number} {phase.plan.name} | {tasks} | {points} | {' | '.join(verdicts)} |"


def failures(phase: PhaseGrade) -> Iterator[tuple[str, str]]:
    """Yield title and message of what failed first in each task that was begun, else of the whole engine."""
    if phase.error:
        yield f"Phase {phase.plan.number} could not be graded", phase.error
        return
    for task in phase.tasks:
        test = task.first_failure
        if test is not None and test.outcome != "not started":
            name = test.id.rpartition("::")[2]
            yield f"Phase {phase.plan.number}, task {task.plan.number}: {name}", test.message
    for name, check in (("beside the reference", phase.oracle), ("in the stack", phase.stack)):
        if check.status == "failed":
            yield f"Phase {phase.plan.number} {name}", check.message


def preformatted(text: str) -> str:
    """Return a preformatted text, cut if it is long; a job summary takes at most 1 MiB."""
    shown = clean(text)
    cut = shown if len(shown) <= MAX_CHARACTERS else f"{shown[:MAX_CHARACTERS]}\n..."
    return f"<pre>{escape(cut)}</pre>"
