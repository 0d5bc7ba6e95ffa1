"""`mini-vllm hint` shows a task's hint step by step; `approaches` shows other solutions once the task is done.

The hints are in `hints.rot13` next to a handout. Each letter is rotated by 13 places, so that nobody comes across a
recipe by accident when reading the handout or searching its folder. `tr A-Za-z N-ZA-Mn-za-m` converts a file in either
direction.
"""

import codecs
import json
import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markdown import Markdown

from mini_vllm.assembly.lineup import CHECKOUT
from mini_vllm_labs.grading.history import note
from mini_vllm_labs.pictures.terminal.console import friendly, make_console
from mini_vllm_labs.runs.starter_status import LABS, starter_path

SEEN = CHECKOUT / ".hints_seen.json"
TASK = re.compile(r"^# (\d+\.\d)\n", re.MULTILINE)
STEP = re.compile(r"^## ?(.*)\n", re.MULTILINE)


@friendly
def hint(
    task: Annotated[str, typer.Argument(metavar="TASK", help="Such as 1.2.", show_default=False)],
    again: Annotated[bool, typer.Option("--again", help="Show only the steps that you have seen.")] = False,
) -> None:
    """Show the next step of a task's hint.

    The first step is a question, and the last is almost a recipe, so try the task before you ask for another step.
    """
    show_hint(make_console(), task, again=again)


def show_hint(console: Console, task: str, *, again: bool = False) -> None:
    """Print the next step of a task's hint, or the steps already shown.

    Raises `ValueError` for an unknown task.
    """
    hints = all_hints()
    if task not in hints:
        raise ValueError(f"hint {task}: hints exist only for the tasks {', '.join(hints)}")
    steps = hints[task]
    num_seen = min(seen().get(task, 0), len(steps))
    shown = range(num_seen) if again or num_seen == len(steps) else range(num_seen, num_seen + 1)
    for number, (title, text) in enumerate(steps[shown.start : shown.stop], start=shown.start + 1):
        heading = f"Task {task}, hint {number} of {len(steps)}" + (f": {title}" if title else "")
        console.print(heading, style="bold", markup=False)
        console.print(Markdown(text))
        console.print()
    keep_seen(task, shown.stop)
    left = len(steps) - shown.stop
    console.print(f"{left} more: mini-vllm hint {task}" if left else "That was the last one.", style="dim")


def all_hints() -> dict[str, list[tuple[str, str]]]:
    """Return the steps of each task; a step has a title, which may be empty, and Markdown
    text."""
    found = {}
    for path in filter(Path.exists, (starter_path(phase).with_name("hints.rot13") for phase in LABS)):
        _, *parts = TASK.split(readable(path))
        for task, text in zip(parts[::2], parts[1::2], strict=True):
            _, *steps = map(str.strip, STEP.split(text))
            found[task] = list(zip(steps[::2], steps[1::2], strict=True))
    return found


def readable(path: Path) -> str:
    """Return a hint file as plain text, with `# 1.2` before each task and `## title` before each step."""
    return codecs.decode(path.read_text(encoding="utf-8"), "rot13")


def seen() -> dict[str, int]:
    """Return how many steps of each task have been shown in this checkout."""
    try:
        found: dict[str, int] = json.loads(SEEN.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def keep_seen(task: str, num_steps: int) -> None:
    """Record how many steps of a task have been shown in this checkout."""
    known = seen()
    if num_steps > known.get(task, 0):
        note(("hint", {"task": task, "step": num_steps}))
    SEEN.write_text(json.dumps(known | {task: num_steps}), encoding="utf-8")


@friendly
def approaches(task: Annotated[str, typer.Argument(metavar="TASK", help="Such as 1.2.", show_default=False)]) -> None:
    """Show other good ways to solve a task that you have passed.

    Grades the task first. Each way passes the same tests, and comes with a sentence about its cost.
    """
    from mini_vllm_labs.cli.watching.screen import show_approach, show_verdict
    from mini_vllm_labs.grading.approaches import task_named, unsealed
    from mini_vllm_labs.grading.grader import grade_tests

    console, (phase, number) = make_console(), task_named(task)
    grade = grade_tests(replace(phase, tasks=[phase.tasks[number - 1]]), threading.Event())
    if not grade.is_complete:
        show_verdict(console, grade)
        console.print(f"Other ways to write {task} are shown once yours passes.", markup=False)
        raise typer.Exit(1)
    found = unsealed(task)
    if not found:
        console.print(f"The course has no other ways to write {task}.", markup=False)
    for place in range(len(found)):
        show_approach(console, task, found, place)
