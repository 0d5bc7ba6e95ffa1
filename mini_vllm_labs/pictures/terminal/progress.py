"""Shows a long command's progress on stderr: a bar in a terminal, a line every ten seconds elsewhere."""

import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from mini_vllm_labs.pictures.terminal.console import is_live, make_console

FIRST_PAUSE = 2.0  # short commands print nothing
PAUSE = 10.0
T = TypeVar("T")


class ProgressReport(Protocol):
    """A function that receives the current part of the work and its progress; `total` is 0 if unknown.

    `found` is a result of that part, printed as a permanent line.
    """

    def __call__(self, text: str, done: int = 0, total: int = 0, found: str = "") -> None: ...


def unreported(text: str, done: int = 0, total: int = 0, found: str = "") -> None:
    """Report nothing."""


@contextmanager
def reported(text: str, console: Console | None = None) -> Iterator[ProgressReport]:
    """Show the progress reports of the `with` block on stderr, beginning with `text`."""
    console = console or make_console(stderr=True)
    if not is_live(console):
        lines = ProgressLines(text)
        lines.start()
        try:
            yield lines
        finally:
            lines.stop()
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"))
    times = (TimeElapsedColumn(), TimeRemainingColumn())
    # Results printed to the same terminal appear above the bar. With a pipe, results go to stdout.
    is_shared = sys.stdout.isatty()
    with Progress(
        *columns, *times, console=console, transient=True, redirect_stdout=is_shared, redirect_stderr=False
    ) as bars:
        task = bars.add_task(text, total=None, count="")

        def show(text: str, done: int = 0, total: int = 0, found: str = "") -> None:
            if found:
                bars.console.print(found, markup=False, highlight=False)
            if text != bars.tasks[0].description:
                bars.reset(task, description=text)
            bars.update(task, completed=done, total=total or None, count=f"{done:,} of {total:,}" if total else "")

        yield show


class ProgressLines:
    """Prints a line to stderr after two seconds and then every ten seconds, no matter how often progress is
    reported."""

    def __init__(self, text: str) -> None:
        self._started = self._part_started = time.monotonic()
        self._text, self._done, self._total = text, 0, 0
        self._over = threading.Event()
        self._printer = threading.Thread(target=self._print_lines, daemon=True)

    def __call__(self, text: str, done: int = 0, total: int = 0, found: str = "") -> None:
        if found:
            print(found, file=sys.stderr, flush=True)
        if text != self._text:
            self._part_started = time.monotonic()
        self._text, self._done, self._total = text, done, total

    def start(self) -> None:
        self._printer.start()

    def stop(self) -> None:
        self._over.set()
        self._printer.join()

    def line(self) -> str:
        """Return the current part, its progress, and the elapsed and remaining seconds."""
        now = time.monotonic()
        line = f"[{now - self._started:.0f} s] {self._text}"
        if self._total:
            line += f": {self._done:,} of {self._total:,}"
        if 0 < self._done < self._total:
            rest = (now - self._part_started) * (self._total - self._done) / self._done
            line += f", about {rest:.0f} s left"
        return line

    def _print_lines(self) -> None:
        pause = FIRST_PAUSE
        while not self._over.wait(pause):
            print(self.line(), file=sys.stderr, flush=True)
            pause = PAUSE


def counted(items: Sequence[T], text: str, report: ProgressReport) -> Iterator[T]:
    """Yield the items; before each one, report how many have already been yielded."""
    for number, item in enumerate(items):
        report(text, number, len(items))
        yield item
