"""Work that takes seconds, one piece after the other in a thread beside the keyboard, with what each has cost."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

Work = Callable[[threading.Event], Any]
Shown = Callable[[Any, float], None]


@dataclass
class Job:
    """`work` is called with the event that stops it, `show` with its result and its CPU seconds."""

    work: Work
    show: Shown
    is_verdict: bool  # about a version of a file, so that a new one makes it worthless


class Jobs:
    """A queue of jobs. `poll` is called again and again by the one thread that prints."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1)
        self._waiting: list[Job] = []
        self._running: tuple[Job, Future[tuple[Any, float]]] | None = None
        self._stop = threading.Event()

    @property
    def is_idle(self) -> bool:
        return self._running is None and not self._waiting

    def add(self, work: Work, show: Shown, *, is_verdict: bool = False) -> None:
        self._waiting.append(Job(work, show, is_verdict))

    def drop_verdicts(self) -> None:
        """Forget the verdicts that are waited for, and stop one that is being made."""
        self._waiting = [job for job in self._waiting if not job.is_verdict]
        if self._running is not None and self._running[0].is_verdict:
            self._stop.set()

    def poll(self) -> None:
        """Show what is done, and begin what is next. Raises what the work has raised, unless it was stopped."""
        if self._running is not None and self._running[1].done():
            (job, future), self._running = self._running, None
            if not (job.is_verdict and self._stop.is_set()):
                job.show(*future.result())
        if self._running is None and self._waiting:
            self._stop = threading.Event()
            job = self._waiting.pop(0)
            self._running = job, self._pool.submit(timed, job.work, self._stop)

    def close(self) -> None:
        """Stop everything, and wait for what is running."""
        self._waiting.clear()
        self._stop.set()
        self._pool.shutdown(cancel_futures=True)


def timed(work: Work, stop: threading.Event) -> tuple[Any, float]:
    """Return what the work returns, and the seconds of CPU that this process and its children took for it."""
    before = os.times()
    result = work(stop)
    return result, sum(os.times()[:4]) - sum(before[:4])
