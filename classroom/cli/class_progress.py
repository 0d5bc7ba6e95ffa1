"""The progress of a class: which submissions are being graded, how many are done, and the time left."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.text import Text

from course.terminal.console import is_live


class ClassProgress:
    """Moves a bar in a terminal; elsewhere prints a line for each finished submission."""

    def __init__(self, console: Console, bars: Progress | None, total: int) -> None:
        self._console = console
        self._bars = bars
        self._total = total
        self._num_done = 0
        self._start = time.monotonic()
        self._lock = threading.Lock()
        self._class = bars.add_task("submissions", total=total, what="") if bars else None
        self._rows: dict[str, TaskID] = {}

    def situation(self, name: str, what: str, done: int) -> None:
        """Show what is graded of a submission. Called from several threads."""
        if self._bars is None:
            return
        with self._lock:
            if name not in self._rows:
                self._rows[name] = self._bars.add_task(Text(name).markup, total=None, what="")
            self._bars.update(self._rows[name], completed=done, what=what)

    def finished(self, name: str, seconds: float) -> None:
        """Show that a submission is done."""
        self._num_done += 1
        if self._bars is not None and self._class is not None:
            self._bars.update(self._class, completed=self._num_done)
            with self._lock:
                if name in self._rows:
                    self._bars.remove_task(self._rows.pop(name))
            return
        left = (time.monotonic() - self._start) / self._num_done * (self._total - self._num_done)
        text = f"{self._num_done}/{self._total} {name}: {seconds:.0f} s; about {left / 60:.0f} min left"
        self._console.print(text, markup=False, soft_wrap=True)


@contextmanager
def class_progress(console: Console, num_submissions: int) -> Iterator[ClassProgress]:
    """Show progress while the block runs."""
    if not is_live(console):
        yield ClassProgress(console, None, num_submissions)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[what]}"))
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as bars:
        yield ClassProgress(console, bars, num_submissions)
