"""What every benchmark says before it starts: how long it takes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from course.terminal.console import make_console
from course.terminal.progress import ProgressReport, reported
from course.terminal.step_view import FAINT

ModelsThreads = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Compute threads. Default: OMP_NUM_THREADS, or one for a small model and one per CPU for a larger.",
        show_default=False,
    ),
]


@contextmanager
def measuring(text: str, seconds: float) -> Iterator[ProgressReport]:
    """Say on stderr how long the block takes on two quiet cores, then show what it reports, as `reported` does."""
    amount = f"{10 * round(seconds / 10) or 10} seconds" if seconds < 90 else f"{round(seconds / 60)} minutes"
    console = make_console(stderr=True)
    console.print(f"About {amount} on two quiet cores. Each result is shown when it is there.", style=FAINT)
    with reported(text, console) as report:
        yield report
