"""The table of what each part found."""

from collections.abc import Sequence

from rich.console import Console

from bench.serve.faults.part import Part
from course.terminal.step_view import FAINT, STRONG

WIDTHS = {
    "requests": 8,
    "completed": 9,
    "equal": 6,
    "refused": 7,
    "aborted": 7,
    "failed": 6,
    "seconds": 7,
    "MiB": 9,
    "threads": 7,
    "files": 5,
}
"""Columns of the table, 80 characters wide. The last three are before and after."""


def show_parts(console: Console, parts: Sequence[Part]) -> None:
    """Print a row for each part, and below it everything that does not hold."""
    console.print(" ".join(name.rjust(width) for name, width in WIDTHS.items()), style=FAINT)
    for part in parts:
        console.print(part.name, style=STRONG, markup=False)
        cells = zip(row(part), WIDTHS.values(), strict=True)
        console.print(" ".join(cell.rjust(width) for cell, width in cells))
        for problem in part.problems:
            console.print(f"  does not hold: {problem}", style="bold red", markup=False, soft_wrap=True)


def row(part: Part) -> list[str]:
    """Return the cells of one part."""
    tally, before, after = part.tally, part.before, part.after
    counts = (tally.requests, tally.completed, tally.equal, tally.refused, tally.aborted, tally.failed)
    return [
        *map(str, counts),
        f"{part.seconds:.1f}",
        before_and_after(mib(before.rss), None if after is None else mib(after.rss)),
        before_and_after(before.num_threads, None if after is None else after.num_threads),
        before_and_after(before.num_fds, None if after is None else after.num_fds),
    ]


def mib(num_bytes: int) -> int:
    """Return a size in whole MiB."""
    return round(num_bytes / 2**20)


def before_and_after(before: int, after: int | None) -> str:
    """Return both numbers; a server that has ended has nothing any more."""
    return f"{before} {'-' if after is None else after}"
