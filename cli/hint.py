"""`mini-vllm hint`: the next step of a task's hint, one at a time."""

from typing import Annotated

import typer
from rich.markdown import Markdown

from course.task_hints import all_hints, note_seen, num_seen
from course.terminal.console import friendly, make_console


@friendly
def hint(
    task: Annotated[str, typer.Argument(metavar="TASK", help="Such as 1.2.", show_default=False)],
    again: Annotated[bool, typer.Option("--again", help="Show the steps that you have seen, and no new one.")] = False,
) -> None:
    """Show the next step of a task's hint.

    The first is a question, the last is as good as a recipe: try the task before you ask for one more.
    """
    hints = all_hints()
    if task not in hints:
        raise ValueError(f"hint {task}: there are hints for the tasks {', '.join(hints)}")
    steps, seen, console = hints[task], min(num_seen(task), len(hints[task])), make_console()
    shown = range(seen) if again or seen == len(steps) else range(seen, seen + 1)
    for index in shown:
        title = f": {steps[index].title}" if steps[index].title else ""
        console.print(f"Task {task}, hint {index + 1} of {len(steps)}{title}", style="bold", markup=False)
        console.print(Markdown(steps[index].text))
        console.print()
    now = max(seen, shown.stop)
    note_seen(task, now)
    left = len(steps) - now
    console.print(
        f"{left} more: mini-vllm hint {task}"
        if left
        else "That was the last one. `mini-vllm grade` shows what is wrong.",
        style="dim",
        markup=False,
    )
